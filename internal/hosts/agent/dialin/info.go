package dialin

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// What an agent runs, in Info.Runs.
const (
	RunsWorkers = "workers"
	RunsServers = "servers"
)

// An Info is what an agent says of its host.
type Info struct {
	// Name is the host's in the job, unique among the agents.
	Name string

	// Slots is the number of workers that may run there; 0: it is not given.
	Slots int

	// GPUs is the number of GPUs that are installed, or as many of them as --gpus allows.
	GPUs int

	// MaxGPUs is --gpus, as hosts.Host.GPUs has it; 0: it is not given; hosts.NoGPUs: none may be
	// used.
	MaxGPUs int

	// CPUs is the number of processors that the agent may use.
	CPUs int

	// Runs is RunsWorkers or RunsServers; empty: both may run there.
	Runs string

	// Address is the IP address at which other hosts reach it. If it is empty, Join takes the local
	// address of its connection.
	Address string

	// Launcher is the IP address at which the agent has reached the launcher. Join sets it.
	Launcher string

	// Build is the build of the agent's launch program. Join sets it.
	Build string

	// Joined is the time of joining by the launcher's clock. The Listener sets it.
	Joined time.Time
}

// maxName is the longest name that DNS allows.
const maxName = 253

// Host is the agent's host as a hosts file would name it.
func (i Info) Host() hosts.Host {
	return hosts.Host{Name: i.Name, Slots: i.Slots, GPUs: i.MaxGPUs}
}

// Check says what is wrong with it. What an agent says is not to be trusted in its form.
func (i Info) Check() error {
	h, err := hosts.ParseHost(i.Name[:min(len(i.Name), maxName)])
	switch {
	case err != nil:
		return fmt.Errorf("name: %w", err)
	case len(i.Name) > maxName:
		return fmt.Errorf("name of %d bytes, want at most %d", len(i.Name), maxName)
	case h != hosts.Host{Name: i.Name}:
		return fmt.Errorf("name %q has a user or a port, want a host name alone", i.Name)
	case i.Slots < 0 || i.Slots > hosts.MaxSlots:
		return fmt.Errorf("slots is %d, want 0 to %d", i.Slots, hosts.MaxSlots)
	case i.GPUs < 0 || i.GPUs > hosts.MaxGPUs:
		return fmt.Errorf("GPUs is %d, want 0 to %d", i.GPUs, hosts.MaxGPUs)
	case i.MaxGPUs < hosts.NoGPUs || i.MaxGPUs > hosts.MaxGPUs:
		return fmt.Errorf("most GPUs is %d, want %d to %d", i.MaxGPUs, hosts.NoGPUs, hosts.MaxGPUs)
	case i.CPUs < 0 || i.CPUs > hosts.MaxCPUs:
		return fmt.Errorf("processors is %d, want 0 to %d", i.CPUs, hosts.MaxCPUs)
	case i.Runs != "" && i.Runs != RunsWorkers && i.Runs != RunsServers:
		return fmt.Errorf("runs is %q, want %s, %s or nothing", i.Runs, RunsWorkers, RunsServers)
	}
	for _, a := range []string{i.Address, i.Launcher} {
		if a == "" {
			continue
		}
		if _, err := netip.ParseAddr(a); err != nil {
			return fmt.Errorf("address: %w", err)
		}

		// Package netip takes any text for a zone.
		if h, err := hosts.ParseHost(a); err != nil || h.Name != a {
			return fmt.Errorf("address %q has a zone that is not the name of an interface", a)
		}
	}
	return nil
}
