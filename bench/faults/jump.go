//go:build walljump

package main

import "time"

func init() { jumpWall = time.JumpWall } // of an overlay: see package walljump beside this
