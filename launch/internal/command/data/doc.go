// Package data is `launch data`: it packs, checks and shows data sets of images.
//
// Its commands read a source as a trainer does, by package data of the repository, so that what
// they find is what a trainer would find. The work is done by launch/internal/datapack, datacheck
// and datashow; here are the flags, the messages and the exit codes.
//
// An image that cannot be read ends no command. It is named on a line with its place, the rest is
// worked on, and the exit code tells at the end. A signal ends a command at once; packing leaves
// nothing then, since files get their names when all of them are whole.
package data
