// Package studydir is the folder of a study on the disk: the names of what is in it, and the lock
// that lets one process at a time write there.
package studydir
