//go:build !linux

package drv

// threadID is not known; nor are there GPUs.
func threadID() int { return 0 }
