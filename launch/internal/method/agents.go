package method

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// AgentsConfig configures Agents.
type AgentsConfig struct {
	Listener *dialin.Listener

	// Agents is how many the job begins with; 0: as many as have slots for all workers.
	Agents int

	// Workers is how many the job has.
	Workers int

	// Dir is the job's folder on all hosts.
	Dir string

	// Join is the command by which an agent joins, for messages.
	Join string

	// DialTimeout bounds how long a host waits for its agent.
	DialTimeout time.Duration
	// Progress is told whom the job waits for, each time that this changes, and "" at the end;
	// may be nil.
	Progress func(text string)
	Logger   *slog.Logger
}

// Agents are hosts whose agents dial in (package dialin).
type Agents struct {
	cfg AgentsConfig

	// mu guards the fields below.
	mu sync.Mutex

	// expected are the hosts with which the job begins, and whose agents Follow has not seen.
	expected []hosts.Host

	// dialling has the calls of Dial that wait, by the agent's name.
	dialling map[string]int

	// machines has the newest machine of each name.
	machines map[string]*dialin.Machine
}

// NewAgents makes Agents. They close the Listener.
func NewAgents(cfg AgentsConfig) *Agents {
	return &Agents{cfg: cfg, dialling: make(map[string]int), machines: make(map[string]*dialin.Machine)}
}

// Remote implements Method.
func (*Agents) Remote() bool { return true }

// Hosts implements Method: it waits until as many agents have dialled in as the job begins with.
// Their ranks are in the natural order of their names. With an error come those that are there.
func (a *Agents) Hosts(ctx context.Context) (Hosts, error) {
	progress := a.cfg.Progress
	if progress == nil {
		progress = func(string) {}
	}
	defer progress("")
	last, next := "", time.Time{}
	for {
		until, cancel := ctx, context.CancelFunc(func() {})
		if time.Now().Before(next) {
			until, cancel = context.WithDeadline(ctx, next)
		}
		there, err := a.cfg.Listener.Wait(until, func(there []dialin.Info) bool {
			return a.choose(there) != nil || !time.Now().Before(next) && a.whoIsThere(there) != last
		})
		cancel()
		switch {
		case err != nil && ctx.Err() == nil:
			// It is time to tell what has changed.
			continue
		case err != nil:
			there = a.cfg.Listener.Agents()
			return hostsOf(there), fmt.Errorf("launch: %w: %s; an agent joins with: %s", err, a.whoIsThere(there), a.cfg.Join)
		}
		if text := a.whoIsThere(there); text != last {
			if last = text; len(there) == 0 {
				text = a.waiting(ctx)
			}
			progress(text)
			next = time.Now().Add(progressInterval)
		}
		if chosen := a.choose(there); chosen != nil {
			h := hostsOf(chosen)
			a.Expect(h)
			return h, nil
		}
	}
}

// progressInterval is the least time between two texts for Progress: hundreds of agents may come at
// once.
const progressInterval = 500 * time.Millisecond

// Expect says with which hosts the job begins: Follow does not add them to the job when their
// agents dial in first. Hosts does that, too.
func (a *Agents) Expect(h Hosts) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expected = h.All()
}

// wasExpected reports whether a host is one of Expect; the next time it is not.
func (a *Agents) wasExpected(h hosts.Host) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.expected)
	a.expected = slices.DeleteFunc(a.expected, h.Same)
	return len(a.expected) < n
}

// There implements Follower.
func (a *Agents) There() Hosts { return hostsOf(a.cfg.Listener.Agents()) }

// hostsOf are the hosts of agents.
func hostsOf(agents []dialin.Info) (h Hosts) {
	for _, i := range agents {
		if i.Runs != dialin.RunsServers {
			h.Workers = append(h.Workers, i.Host())
		}
		if i.Runs != dialin.RunsWorkers {
			h.Servers = append(h.Servers, i.Host())
		}
	}
	return h
}

// choose returns the agents that the job begins with, the first ones in their order; nil: they are
// not all there.
func (a *Agents) choose(there []dialin.Info) (chosen []dialin.Info) {
	if a.cfg.Agents > 0 {
		if len(there) < a.cfg.Agents {
			return nil
		}
		return there[:a.cfg.Agents]
	}
	slots, servers := 0, false
	for _, i := range there {
		if i.Runs != dialin.RunsServers {
			if slots >= a.cfg.Workers {
				continue
			}
			slots += max(i.Slots, 1)
		}
		servers = servers || i.Runs != dialin.RunsWorkers
		chosen = append(chosen, i)
	}
	if slots < a.cfg.Workers || !servers {
		return nil
	}
	return chosen
}

// whoIsThere says how many agents are there, and which.
func (a *Agents) whoIsThere(there []dialin.Info) string {
	names, slots, servers := make([]string, len(there)), 0, false
	for i, info := range there {
		names[i] = info.Name
		if info.Runs != dialin.RunsServers {
			slots += max(info.Slots, 1)
		}
		servers = servers || info.Runs != dialin.RunsWorkers
	}
	text := ""
	switch {
	case a.cfg.Agents > 0:
		text = fmt.Sprintf("%d of %d agents", len(there), a.cfg.Agents)
	case slots >= a.cfg.Workers && !servers:
		text = fmt.Sprintf("%s, none of which runs servers,", plural.Of(len(there), "agent"))
	default:
		text = fmt.Sprintf("%s with slots for %d of %s", plural.Of(len(there), "agent"), slots, plural.Of(a.cfg.Workers, "worker"))
	}
	verb := " are there"
	if len(there) == 1 {
		verb = " is there"
	}
	if len(names) == 0 {
		return text + verb
	}
	return text + verb + ": " + list(names)
}

// waiting says at the beginning what is waited for, and how long.
func (a *Agents) waiting(ctx context.Context) string {
	text := "waiting for " + plural.Of(a.cfg.Agents, "agent")
	if a.cfg.Agents == 0 {
		text = "waiting for agents with slots for " + plural.Of(a.cfg.Workers, "worker")
	}
	if end, ok := ctx.Deadline(); ok {
		text += fmt.Sprintf(" (%s at most)", time.Until(end).Round(time.Second))
	}
	return text
}

// maxNames bounds the names of a message.
const maxNames = 20

func list(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Dial implements Method: it waits for the host's agent.
func (a *Agents) Dial(ctx context.Context, h hosts.Host) (Machine, error) {
	if h.User != "" || h.Port != 0 {
		return nil, fmt.Errorf("launch: host %s: agents have a name without user and port; write %s", h, h.Name)
	}
	name, there := a.find(h)
	if !there {
		a.cfg.Logger.Info(fmt.Sprintf("host %s: waiting for its agent; it joins with: %s --name %s", h, a.cfg.Join, name))
	}
	a.mu.Lock()
	a.dialling[name]++
	a.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, a.cfg.DialTimeout, fmt.Errorf("gave up after %s (--join-timeout)", a.cfg.DialTimeout))
	defer cancel()
	m, err := a.cfg.Listener.Dial(ctx, name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dialling[name]--; err != nil {
		return nil, err
	}
	a.machines[name] = m
	return &agentMachine{m, a}, nil
}

// find is the name of a host's agent as the agent spells it, and whether it is there.
func (a *Agents) find(h hosts.Host) (name string, there bool) {
	for _, i := range a.cfg.Listener.Agents() {
		if i.Host().Same(h) {
			return i.Name, true
		}
	}
	return h.Name, false
}

// idle reports whether nothing of the job is on an agent, and nobody waits for it.
func (a *Agents) idle(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.machines[name]
	if m == nil {
		return a.dialling[name] == 0
	}
	select {
	case <-m.Gone():
		return a.dialling[name] == 0
	default:
		return false
	}
}

// An agentMachine is the host of an agent.
type agentMachine struct {
	*dialin.Machine
	of *Agents
}

// Close implements Machine.
func (m *agentMachine) Close() error {
	err := m.Machine.Close()
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if name := m.Info().Name; m.of.machines[name] == m.Machine {
		delete(m.of.machines, name)
	}
	return err
}

// Dismiss implements job.Dismisser: the agent exits, unless its host was added again meanwhile.
func (m *agentMachine) Dismiss() {
	if name := m.Info().Name; m.of.idle(name) {
		m.of.cfg.Listener.Dismiss(name)
	}
}

// Dir implements Method.
func (a *Agents) Dir() string { return a.cfg.Dir }

// Command implements Method.
func (*Agents) Command(h hosts.Host) string { return "agent " + h.String() }

// Close implements Method: it tells all agents that the job is over.
func (a *Agents) Close() error { return a.cfg.Listener.Close() }

// LeaveToNext is Close for a launcher that ends before the job does: agents with --rejoin look for
// the next one. It is not Abandon, so that a type that embeds Agents chooses.
func (a *Agents) LeaveToNext() error { return a.cfg.Listener.Abandon() }
