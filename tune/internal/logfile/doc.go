// Package logfile writes and reads the log of a study: a file of lines, each with the sum of its
// bytes, to which lines are only appended.
//
// A crash may take lines that nobody has waited for, and leaves nothing but their beginnings or
// zeros at the end of the file. Reading stops before those. Any other damage is an error, since the
// answers to trials that the lines had are out in the world.
package logfile
