package dialin

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/paragon-train/paragon/internal/agent"
)

// Config configures Listen.
type Config struct {
	Listen string        // host:port; "" is ":0"
	Secret Secret        // that agents and launch ctl have, too
	Lease  time.Duration // silence after which either end is declared lost, the same on both; 0: 4 s
	Build  string        // that agents must have; "": Build()

	// Control serves a connection of launch ctl until it returns, and must return soon after ctx ended; nil: they are refused.
	Control func(ctx context.Context, conn net.Conn)

	Logger *slog.Logger // slog.Default()
}

// A Listener is the launcher's end. Its methods may be called together.
type Listener struct{}

// Listen listens for agents until Close. ctx bounds the start only.
func Listen(ctx context.Context, cfg Config) (*Listener, error) { return nil, nil }

// Addresses has host:port for each address at which others may reach the listener, the likeliest first.
func (l *Listener) Addresses() []string { return nil }

// Agents has the agents that are there, idle or in use, in the natural order of their names: n2 comes before n10.
func (l *Listener) Agents() []Info { return nil }

// Wait returns the agents once there are enough of them. The error is ctx's cause.
func (l *Listener) Wait(ctx context.Context, enough func([]Info) bool) ([]Info, error) {
	return nil, nil
}

// A Change says that an agent has come, or is gone for good: its lease expired, it left, or another one has taken its place. One that comes back after
// that has come again. An agent whose Machine was closed, or that has lost its connection within the lease, is not gone.
type Change struct {
	Info   Info
	Joined bool
}

// Changes has the changes since Listen. It may be read or not: of those that nobody reads, only the last ones of each name are kept.
func (l *Listener) Changes() <-chan Change { return nil }

// Dial takes the agent of that name, and waits for it until ctx ends. After Machine.Close the agent is idle and can be dialled again.
func (l *Listener) Dial(ctx context.Context, name string) (*Machine, error) { return nil, nil }

// Dismiss tells the agent of that name that it is not needed any more: it ends its processes and exits with code 0.
func (l *Listener) Dismiss(name string) {}

// Close tells all agents that the job is over: they exit with code 0. It returns when they have been told or are gone.
func (l *Listener) Close() error { return nil }

// A Machine is the host of an agent that dialled in.
type Machine struct{ *agent.Client }

// Info is what the agent said of its host.
func (m *Machine) Info() Info { return Info{} }

// Address is the IP address at which other hosts reach this one.
func (m *Machine) Address() string { return "" }

// LauncherAddress is the IP address at which this host reached the launcher.
func (m *Machine) LauncherAddress() string { return "" }

// Close stops all processes that still run there. The agent is idle then.
func (m *Machine) Close() error { return nil }
