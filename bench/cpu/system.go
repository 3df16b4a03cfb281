package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// resident is the process's memory in bytes, now and at its peak; 0 where the system does not tell.
func resident() (now, peak int64) {
	return kilobytes("VmRSS"), kilobytes("VmHWM")
}

// resetPeak makes the peak begin anew, where the system can.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

func kilobytes(name string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/self/status", name), " kB"), 10, 64)
	return n << 10
}

// field is the value of the first line "name: value" of a file; "" if there is none.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
