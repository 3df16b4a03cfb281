package kubernetes

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// A Config is a job to render.
type Config struct {
	// Name is the job's. The names of all objects begin with it.
	Name string

	// Namespace is empty for the one in which kubectl applies it.
	Namespace string

	Image string

	// Secret is the one that launch and agents share, as in its file.
	Secret string

	Workers, Servers int

	// Slots is the number of workers in each pod of workers. Servers have a pod each.
	Slots int

	// Elastic says that workers may come and go.
	Elastic bool

	// MinWorkers is that of an elastic job.
	MinWorkers int

	// Arguments are launch's own flags, for the scheduler.
	Arguments []string

	// Command is what the workers run.
	Command []string

	// GPUs is the number of each worker's.
	GPUs int

	// Worker is what each pod of workers gets.
	Worker Resources

	// Server is what each pod of servers gets.
	Server Resources

	Volumes []Volume

	// User is the one that all containers run as, and their group.
	User int64

	NodeSelector []string
	Tolerations  []string

	// Drain is the time in which a pod of workers or servers leaves the job after SIGTERM.
	Drain time.Duration

	// StopTimeout is launch's --stop-timeout.
	StopTimeout time.Duration

	JobSet bool

	// Queue is one of Kueue; empty: there is none.
	Queue string
}

// Resources are what a pod requests, and is limited to. Empty: it requests some, and has no limit.
// Unrequested: neither.
type Resources struct {
	CPUs, Memory string
}

// A Volume is a PersistentVolumeClaim that all pods mount.
type Volume struct {
	Claim, Path string
	ReadOnly    bool
}

// ParseVolume reads CLAIM:/PATH or CLAIM:/PATH:ro.
func ParseVolume(text string) (Volume, error) {
	claim, rest, _ := strings.Cut(text, ":")
	where, mode, moded := strings.Cut(rest, ":")
	switch {
	case !isSubdomain(claim, maxSubdomain), !path.IsAbs(where), moded && mode != "ro" && mode != "rw":
		return Volume{}, fmt.Errorf("%q is not the name of a PersistentVolumeClaim with the path to mount it at; write claim:/path, or claim:/path:ro", text)
	case path.Clean(where) != where || where == "/":
		return Volume{}, fmt.Errorf("%q: want a path below /, without . and .. in it", text)
	}
	for _, used := range []string{tmpPath, secretPath} {
		if where == used || strings.HasPrefix(used, where+"/") || strings.HasPrefix(where, used+"/") {
			return Volume{}, fmt.Errorf("%q: %s is used in the pods already; mount it elsewhere", text, used)
		}
	}
	return Volume{Claim: claim, Path: where, ReadOnly: mode == "ro"}, nil
}

// pods is how many pods of workers the job has.
func (c *Config) pods() int { return (c.Workers + c.Slots - 1) / c.Slots }

// leastPods is how many pods of workers the job needs at any time.
func (c *Config) leastPods() int {
	if c.Elastic {
		return (max(c.MinWorkers, 1) + c.Slots - 1) / c.Slots
	}
	return c.pods() - 1
}

// Unrequested is the amount of Resources by which a pod requests nothing.
const Unrequested = "none"

const (
	containerName = "launch"
	port          = 7077
	portName      = "join"
	tmpPath       = "/tmp"
	secretPath    = "/etc/paragon/secret"
	secretKey     = "secret"
	secretFile    = secretPath + "/" + secretKey
	gpuResource   = "nvidia.com/gpu"
	// waitTime is how long an agent looks for a launcher, and launch waits for agents: pods may
	// stay pending while nodes are added.
	waitTime = time.Hour
)
