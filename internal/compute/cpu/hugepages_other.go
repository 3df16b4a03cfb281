//go:build !linux

package cpu

func adviseHugePages([]float32) {}
