//go:build !linux

package cluster

// HostID is empty: processes share memory on Linux only.
func HostID() string { return "" }
