package method

import (
	"context"
	"io"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/local"
)

// Local starts everything on the launching machine. Jobs of the other methods have their scheduler
// there.
type Local struct {
	// Agent is its agent's program, with arguments.
	Agent []string

	// Log gets the agent's messages.
	Log io.Writer
}

// Remote implements Method.
func (*Local) Remote() bool { return false }

// Hosts implements Method.
func (*Local) Hosts(context.Context) (Hosts, error) { return Any([]hosts.Host{hosts.Local}), nil }

// Dial implements Method. All hosts are this machine.
func (l *Local) Dial(ctx context.Context, _ hosts.Host) (Machine, error) {
	m, err := local.Start(ctx, l.Agent, l.Log)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Dir implements Method: processes run where launch does.
func (*Local) Dir() string { return "" }

// Command implements Method.
func (*Local) Command(h hosts.Host) string { return "on " + h.String() }

// Close implements Method.
func (*Local) Close() error { return nil }
