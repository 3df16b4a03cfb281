// Package jsonline writes and reads the words of lines of JSON in which every value can be written
// in one way only: keys in a fixed order, no spaces, numbers in their shortest form. A reader that
// takes nothing else need not compare: what it takes is what would be written.
//
// A key is passed with all that stands before its value, such as `,"trial":`.
package jsonline
