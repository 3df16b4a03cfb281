package method

import (
	"context"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// Slurm is the nodes of an allocation, on each of which a step of srun runs an agent that dials in. Agents of other jobs may join them.
type Slurm struct {
	*Agents
	nodes  []hosts.Host
	step   *slurm.Step
	closed chan struct{}
}

// NewSlurm makes a Slurm of an allocation and the step that runs its agents.
func NewSlurm(cfg AgentsConfig, a slurm.Allocation, step *slurm.Step) *Slurm {
	s := &Slurm{Agents: NewAgents(cfg), nodes: a.Hosts(), step: step, closed: make(chan struct{})}
	go s.watch()
	return s
}

// watch tells of an srun that ends before the job does. Its agents need it no more.
func (s *Slurm) watch() {
	select {
	case <-s.closed:
	case <-s.step.Done():
		if err := s.step.Err(); err != nil {
			s.cfg.Logger.Warn(fmt.Sprintf("the step of the agents has ended: %v; nodes whose agents still reach launch stay in the job", err))
		}
	}
}

// Hosts implements Method: it waits until the agents of all nodes have dialled in. Ranks are in the order of the nodelist.
func (s *Slurm) Hosts(ctx context.Context) (Hosts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.step.Failed():
			// srun has more to say, mostly.
			select {
			case <-s.step.Done():
			case <-time.After(time.Second):
			}
			cancel(s.step.Why())
		case <-s.step.Done():
			cancel(s.step.Why())
		case <-ctx.Done():
		}
	}()
	go s.tellMissing(ctx)
	there, err := s.cfg.Listener.Wait(ctx, func(there []dialin.Info) bool { return len(s.missing(there)) == 0 })
	if err != nil {
		return Hosts{}, fmt.Errorf("launch: start agents on the nodes: %w; without an agent: %s", err, list(s.missing(s.cfg.Listener.Agents())))
	}
	s.mu.Lock()
	s.chosen = there
	s.mu.Unlock()
	return Any(s.nodes), nil
}

// tellMissing says from time to time which agents are not there, until ctx ends.
func (s *Slurm) tellMissing(ctx context.Context) {
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
			s.cfg.Progress(fmt.Sprintf("waiting for the agents of %d of %s: %s", len(missing), count(len(s.nodes), "node"), list(missing)))
		case <-ctx.Done():
			return
		}
	}
}

// missing has the nodes whose agents are not there.
func (s *Slurm) missing(there []dialin.Info) (names []string) {
	has := make(map[string]bool)
	for _, i := range there {
		has[i.Name] = true
	}
	for _, n := range s.nodes {
		if !has[n.Name] {
			names = append(names, n.Name)
		}
	}
	return names
}

// Command implements Method.
func (s *Slurm) Command(h hosts.Host) string { return "srun --overlap --nodelist=" + h.Name }

// endTime is how long agents have to end after they were told that the job is over.
const endTime = 5 * time.Second

// Close implements Method: it tells all agents that the job is over, and waits for their step.
func (s *Slurm) Close() error {
	close(s.closed)
	err := s.Agents.Close()
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	s.step.Close(ctx)
	return err
}
