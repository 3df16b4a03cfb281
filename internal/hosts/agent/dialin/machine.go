package dialin

import (
	"context"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// A Machine is the host of an agent that dialled in.
type Machine struct {
	*agent.Client
	info     Info
	listener *Listener
	session  *session
	once     sync.Once
	err      error
}

// Dial takes the agent of that name, and waits for it until ctx ends. After Machine.Close the agent
// is idle and can be dialled again.
func (l *Listener) Dial(ctx context.Context, name string) (*Machine, error) {
	var machine *Machine
	why := ""
	err := l.await(ctx, func() bool {
		m := l.agents[nameKey(name)]
		switch {
		case m == nil || !m.joined || m.dismissed:
			why = "no agent of that name has joined"
		case m.session == nil || m.session.client == nil || m.session.closed:
			why = "its agent has not come back yet"
		case m.session.inUse:
			why = "its agent is in use"
		default:
			m.session.inUse = true
			machine = &Machine{Client: m.session.client, info: m.info, listener: l, session: m.session}
			return true
		}
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("launch: host %s: %s: %w", name, why, err)
	}
	return machine, nil
}

// Info is what the agent said of its host.
func (m *Machine) Info() Info { return m.info }

// Address is the IP address at which other hosts reach this one.
func (m *Machine) Address() string { return m.info.Address }

// LauncherAddress is the IP address at which this host reached the launcher.
func (m *Machine) LauncherAddress() string { return m.info.Launcher }

// Close stops all processes that still run there. The agent is idle then.
func (m *Machine) Close() error {
	m.once.Do(func() {
		m.listener.mu.Lock()
		m.session.closed = true
		m.listener.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if m.err = m.Client.Close(ctx); m.err != nil {
			m.session.stream.Abort(m.err)
		}
	})
	return m.err
}
