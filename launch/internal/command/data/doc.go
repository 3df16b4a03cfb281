// Package data is `launch data`: it packs, checks and shows data sets of images.
//
// Its commands read a source as a trainer does, by package data of the repository, so that what they
// find is what a trainer would find. The work is done by launch/internal/datapack, datacheck and
// datashow; here are the flags, the messages and the exit codes.
package data
