package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// HostID names this host for other processes that can reach this one through its memory: those of
// the same boot, network namespace and user. It is empty where the system does not tell.
func HostID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", strings.TrimSpace(string(boot)), network, os.Geteuid()))
	return hex.EncodeToString(sum[:8])
}
