package run

import (
	"context"
	"fmt"
	"io"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/preflight"
)

// thisMachine is the launching one, as far as its addresses go.
type thisMachine struct{}

// Address and LauncherAddress implement job.Addressed.
func (thisMachine) Address() string         { return "127.0.0.1" }
func (thisMachine) LauncherAddress() string { return "" }

// runCheck is --check. If hosts are missing it checks those that are there, so that one wait names
// all that is wrong.
func runCheck(ctx context.Context, o *options.Options, m method.Method, stdout io.Writer) error {
	if !m.Remote() {
		fmt.Fprintln(stdout, "Everything runs on this machine; there is no host to check. Give hosts with -H FILE.")
		return nil
	}
	found, waiting := findHosts(ctx, m, o.Times.Start)
	if waiting != nil && (len(found.All()) == 0 || ctx.Err() != nil) {
		return waiting
	}
	if h := o.SchedulerHost; h != nil {
		found.Servers = append(found.Servers[:len(found.Servers):len(found.Servers)], *h)
	}
	cfg := preflight.Config{
		Hosts: found.All(), Timeout: o.Times.Start,
		Dial: func(ctx context.Context, h hosts.Host) (preflight.Machine, error) { return m.Dial(ctx, h) },
		Launcher: func(reached []preflight.Machine) (string, error) {
			if o.Network.HostIP != "" {
				return o.Network.HostIP, nil
			}
			machines := make([]job.Addressed, len(reached))
			for i, r := range reached {
				machines[i] = r.(method.Machine)
			}
			return job.SchedulerAddress(job.Addressed(thisMachine{}), machines)
		},
	}
	if copier, ok := m.(method.Copier); ok {
		cfg.SyncDir = copier.SyncDir()
		cfg.Copy = func(ctx context.Context, m preflight.Machine, file, dir string) error {
			return copier.Copy(ctx, m.(method.Machine), file, dir)
		}
	}
	if !preflight.Write(stdout, preflight.Check(ctx, cfg)) && waiting == nil {
		return command.ExitError(1)
	}

	// Whoever calls this prints it, and ends with 1.
	return waiting
}
