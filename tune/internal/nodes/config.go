package nodes

import (
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/tune/jobs"
)

// Config says which nodes there are, and how they are reached. With neither HostFile nor Cluster
// this machine is the only node.
type Config struct {
	// HostFile names a hosts file, Cluster the nodes of a cluster's scheduler. At most one of
	// both is set.
	HostFile string
	Cluster  *jobs.Cluster
	// Launch returns the path of the launch program, which runs on hosts as their agent.
	Launch func() (string, error)
	// SSH is the ssh client with options; "" is that of PARAGON_SSH, or ssh.
	SSH string
	// Folder is the one on hosts that files are uploaded to; "" is the home folder.
	Folder string
	// SlowestProbe is the longest time that a host which is set aside is left alone. Zero is a
	// minute.
	SlowestProbe time.Duration
	// Changed is told why a division of the slots is due: a host has come or gone. It must not
	// call the Set.
	Changed func(cause string)
	Logger  *slog.Logger

	// ask replaces the question over ssh in tests.
	ask asker
}
