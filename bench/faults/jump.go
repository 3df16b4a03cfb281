//go:build walljump

package main

import "time"

// The function is one of an overlay: see package walljump beside this.
func init() { jumpWall = time.JumpWall }
