package options

import (
	"os"
	"strings"
)

// WorkerCommand is what the workers run: words as they are, or one word of shell syntax in a shell.
func WorkerCommand(args []string) []string {
	if len(args) == 1 && strings.ContainsAny(args[0], " \t\n'\"\\$`;&|<>()*?[]{}~#!") {
		if _, err := os.Stat(args[0]); err == nil {
			// It is a file of that name.
			return args
		}
		return []string{"/bin/sh", "-c", args[0]}
	}
	return args
}
