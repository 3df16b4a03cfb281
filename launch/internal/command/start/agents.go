package start

import (
	"context"

	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/method"
)

// openAgents opens hosts whose agents dial in.
func openAgents(ctx context.Context, o *options.Options, e Environment) (method.Method, error) {
	l, err := listen(ctx, o, e, "")
	if err != nil {
		return nil, err
	}
	e.Log.Info("agents join with: " + l.join)
	return &dialledIn{method.NewAgents(agentsConfig(o, l, e)), l}, nil
}

// agentsConfig is how agents are used.
func agentsConfig(o *options.Options, l *listener, e Environment) method.AgentsConfig {
	return method.AgentsConfig{
		Listener: l.Listener, Agents: o.Start.Agents.Number, Workers: o.Workers, Dir: e.Folder, Join: l.join,
		DialTimeout: o.Elastic.JoinTimeout, Progress: e.Progress, Logger: e.Log,
	}
}

// dialledIn are agents with the address file of their job.
type dialledIn struct {
	*method.Agents
	l *listener
}

// Close implements method.Method. Agents read the address file when they come to hear that the job
// is over, so it goes last.
func (d *dialledIn) Close() error {
	defer d.l.removeAddresses()
	return d.Agents.Close()
}

// Abandon implements method.Abandoner.
func (d *dialledIn) Abandon() error {
	defer d.l.removeAddresses()
	return d.Agents.LeaveToNext()
}
