// Package count measures a tree of Go packages: lines and comments, types, functions, and which
// files and rooms depend on which. Its figures compare one tree with another, for instance before
// and after a redesign; no rule fails on them.
//
//	go test ./internal/lint -run TestCountTree -tree ../../../other -table /tmp/other.md
//
// Paths are relative to internal/lint. Lists have their largest twenty rows, with -all every one.
// Only syntax and the names within a package are read, so a tree is counted in seconds and need not
// build.
package count
