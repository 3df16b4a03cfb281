//go:build !linux

package main

import "time"

// threadTime is nil: the system does not say.
func threadTime() func() time.Duration { return nil }
