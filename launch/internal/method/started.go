package method

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// A Starter runs the agents of a job, one on each host: srun, for example.
type Starter interface {
	// Name is for messages, such as "srun".
	Name() string

	// Done is closed when what was started has ended.
	Done() <-chan struct{}

	// Err says why, after Done; nil: all agents exited with 0.
	Err() error

	// Failed is closed when it has said that an agent could not be started or has failed, and
	// Why is what went wrong so far.
	Failed() <-chan struct{}
	Why() error
	// Close waits for its end, which the agents were told, and stops it when ctx ends.
	Close(ctx context.Context)
}

// Started are the hosts of an allocation, on each of which a Starter runs an agent that dials in.
// Agents that others run may join them.
type Started struct {
	*Agents
	nodes   []hosts.Host
	starter Starter
	command func(hosts.Host) string
	closed  chan struct{}
}

// NewStarted makes a Started. The order of the hosts gives the ranks; command says how a host is
// reached. Close closes the Starter.
func NewStarted(cfg AgentsConfig, nodes []hosts.Host, starter Starter, command func(hosts.Host) string) *Started {
	s := &Started{Agents: NewAgents(cfg), nodes: nodes, starter: starter, command: command, closed: make(chan struct{})}
	go s.watch()
	return s
}

// watch tells of a starter that ends before the job does. Its agents may go on without it.
func (s *Started) watch() {
	select {
	case <-s.closed:
	case <-s.starter.Done():
		if err := s.starter.Err(); err != nil {
			s.cfg.Logger.Warn(fmt.Sprintf("%s has ended: %v; hosts whose agents still reach launch stay in the job", s.starter.Name(), err))
		}
	}
}

// Hosts implements Method: it waits until the agents of all hosts have dialled in.
func (s *Started) Hosts(ctx context.Context) (Hosts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.starter.Failed():
			// It has more to say, mostly.
			select {
			case <-s.starter.Done():
			case <-time.After(time.Second):
			}
			cancel(s.starter.Why())
		case <-s.starter.Done():
			cancel(s.starter.Why())
		case <-ctx.Done():
		}
	}()
	go s.tellMissing(ctx)
	if _, err := s.cfg.Listener.Wait(ctx, func(there []dialin.Info) bool { return len(s.missing(there)) == 0 }); err != nil {
		return Hosts{}, fmt.Errorf("launch: start the agents: %w; without an agent: %s", err, list(s.missing(s.cfg.Listener.Agents())))
	}
	h := Any(s.nodes)
	s.Expect(h)
	return h, nil
}

// tellMissing says from time to time which agents are not there, until ctx ends.
func (s *Started) tellMissing(ctx context.Context) {
	if s.cfg.Progress == nil {
		return
	}
	defer s.cfg.Progress("")
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			missing := s.missing(s.cfg.Listener.Agents())
			s.cfg.Progress(fmt.Sprintf("waiting for the agents of %d of %s: %s", len(missing), plural.Of(len(s.nodes), "host"), list(missing)))
		case <-ctx.Done():
			return
		}
	}
}

// missing has the hosts whose agents are not there.
func (s *Started) missing(there []dialin.Info) (names []string) {
	for _, n := range s.nodes {
		if !slices.ContainsFunc(there, func(i dialin.Info) bool { return i.Host().Same(n) }) {
			names = append(names, n.Name)
		}
	}
	return names
}

// Command implements Method.
func (s *Started) Command(h hosts.Host) string {
	if slices.ContainsFunc(s.nodes, h.Same) {
		return s.command(h)
	}
	return s.Agents.Command(h)
}

// endTime is how long agents have to end after they were told that the job is over. A Starter waits
// for a lost host longer than we do.
const (
	endTime = 5 * time.Second

	// endTimeLost is the time where an agent is lost.
	endTimeLost = 500 * time.Millisecond
)

// Close implements Method: it tells all agents that the job is over, and waits for the Starter.
func (s *Started) Close() error {
	close(s.closed)
	limit := endTime
	if len(s.missing(s.cfg.Listener.Agents())) > 0 {
		limit = endTimeLost
	}
	err := s.Agents.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s.starter.Close(ctx)
	return err
}
