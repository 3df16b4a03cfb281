package main

import (
	"context"
	"fmt"
	"io"

	"github.com/paragon-train/paragon/internal/hosts"
	"github.com/paragon-train/paragon/internal/ssh"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/preflight"
)

// thisMachine is the launching one, as far as its addresses go.
type thisMachine struct{}

func (thisMachine) Address() string         { return "127.0.0.1" }
func (thisMachine) LauncherAddress() string { return "" }

// runCheck is --check.
func (o *options) runCheck(ctx context.Context, method *ssh.Method, stdout io.Writer) error {
	if !o.ssh {
		fmt.Fprintln(stdout, "Everything runs on this machine; there is no host to check. Give hosts with -H FILE.")
		return nil
	}
	var all []hosts.Host
	seen := make(map[string]bool)
	add := func(h hosts.Host) {
		if !seen[h.String()] {
			seen[h.String()] = true
			all = append(all, h)
		}
	}
	for _, h := range o.hosts {
		add(h)
	}
	if o.schedulerHost != nil {
		add(*o.schedulerHost)
	}
	reports := preflight.Check(ctx, preflight.Config{
		Hosts: all, SyncDir: o.syncDir, Timeout: o.startTimeout,
		Dial: func(ctx context.Context, h hosts.Host) (preflight.Machine, error) { return method.Dial(ctx, h) },
		Copy: func(ctx context.Context, m preflight.Machine, file, dir string) error {
			return method.Copy(ctx, m.(*ssh.Machine), file, dir)
		},
		Launcher: func(reached []preflight.Machine) (string, error) {
			if o.hostIP != "" {
				return o.hostIP, nil
			}
			machines := make([]job.Addressed, len(reached))
			for i, m := range reached {
				machines[i] = m.(*ssh.Machine)
			}
			return job.SchedulerAddress(job.Addressed(thisMachine{}), machines)
		},
	})
	if !preflight.Write(stdout, reports) {
		return exitError(1)
	}
	return nil
}
