// Package lint holds the picture of the packages: who may import whom. The picture is that of
// docs/explanation/architecture.md: rooms on floors, from launch at the top to internal/files at
// the bottom, each of which imports only what stands below it. Package internal/testing/imports
// lists the rooms, and the few imports that run back up. The barriers of picture_test.go forbid
// more, such as the roles' imports of each other.
//
// It also has the table of the files that may depend on the wall clock, which may jump, and the
// list of words and names that must not come back because a reader stumbles over them.
//
// Further tests hold what is easily forgotten: an example for each public package, the index of the
// design notes, and that what CONTRIBUTING.md and the pages for users name is there.
//
// It has no code but its tests, and package count, which measures trees and fails on nothing; the
// first reads the imports of every file that is no test. A new folder at the top needs a room in
// the picture, and with it a thought about where it stands.
package lint
