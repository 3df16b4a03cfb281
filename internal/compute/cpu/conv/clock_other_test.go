//go:build !linux

package conv

import "time"

func threadTime() time.Duration { return wallTime() }
