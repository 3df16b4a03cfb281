package start

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/launch/internal/command/agent"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/hostsource"
	"github.com/paragon-train/paragon/launch/internal/local"
)

// OpenSource begins to use the list of hosts that others keep; nil: there is none.
func OpenSource(o options.Source, e Environment) (*hostsource.Follower, error) {
	var s hostsource.Source
	switch o.Flag {
	case options.HostsCommandFlag:
		s = hostsource.NewCommand(o.Value, func(ctx context.Context) (hostsource.Machine, error) {
			m, err := local.Start(ctx, []string{e.Executable, "agent", agent.NoLease}, e.AgentLog)
			if err != nil {
				return nil, err
			}
			return m, nil
		})
	case options.HostsURLFlag:
		u, err := hostsource.NewURL(o.Value)
		if err != nil {
			return nil, fmt.Errorf("launch: --%s: %w", options.HostsURLFlag, err)
		}
		s = u
	default:
		return nil, nil
	}
	return hostsource.New(hostsource.Config{Source: s, Interval: o.Interval, Force: o.Force, Progress: e.Progress, Logger: e.Log}), nil
}
