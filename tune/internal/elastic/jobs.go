package elastic

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// statusTimeout bounds the questions to all jobs before a decision.
const statusTimeout = 2 * time.Second

// An Env is what the jobs of a search share.
type Env struct {
	// Alloc gives out the units of nodes.
	Alloc *slots.Allocator
	// Local is the name of this machine as a node where the nodes are no hosts; "": they are
	// hosts.
	Local string
	// Suspect sets a host aside that has failed a job.
	Suspect func(host string, why error)
	Logger  *slog.Logger
}

// Jobs are the elastic jobs of a search that run now, and what was decided for attempts that are
// about to begin. The zero value is ready. Its methods may be called together.
type Jobs struct {
	// mu guards all below.
	mu sync.Mutex
	// running has the attempts that run, by trial.
	running map[int]*Job
	// decided has placements for attempts that have not begun, by trial.
	decided map[int]decision
	// changes has causes for which a decision is due; nil: nobody divides nodes.
	changes chan string
}

// A decision is a placement that waits for the attempt that it is for.
type decision struct {
	attempt int
	on      jobs.Placement
}

// Enter registers an attempt, which decisions then find. unit is what one replica needs.
func (s *Jobs) Enter(env Env, trial, attempt int, unit slots.Request) *Job {
	j := newJob(env, trial, attempt, unit, s.Due)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = make(map[int]*Job)
	}
	if d := s.decided[trial]; d.attempt == attempt {
		j.want, j.since = d.on, time.Now()
	}
	s.running[trial] = j
	return j
}

// Leave ends what Enter began. All processes of the attempt have ended.
func (s *Jobs) Leave(j *Job) {
	s.mu.Lock()
	if s.running[j.trial] == j {
		delete(s.running, j.trial)
		delete(s.decided, j.trial)
	}
	s.mu.Unlock()
	j.units.release()
}

// States is what is known of running attempts. A job that does not answer does not hold it up.
func (s *Jobs) States(ctx context.Context, trials []int) map[int]jobs.State {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var mu sync.Mutex
	all := make(map[int]jobs.State)
	var asking sync.WaitGroup
	for _, n := range trials {
		s.mu.Lock()
		j := s.running[n]
		s.mu.Unlock()
		if j == nil {
			continue
		}
		asking.Go(func() {
			j.refresh(ctx)
			mu.Lock()
			defer mu.Unlock()
			all[n] = j.state()
		})
	}
	asking.Wait()
	return all
}

// Scale gives an attempt its replicas. It does not wait.
func (s *Jobs) Scale(trial, attempt int, on jobs.Placement) {
	s.mu.Lock()
	j := s.running[trial]
	if j == nil || j.attempt != attempt {
		if s.decided == nil {
			s.decided = make(map[int]decision)
		}
		s.decided[trial] = decision{attempt, on}
		j = nil
	}
	s.mu.Unlock()
	if j != nil && len(on) > 0 {
		j.scale(on)
	}
}

// Changes has a cause whenever a decision is due, from the first call on.
func (s *Jobs) Changes() <-chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == nil {
		s.changes = make(chan string, 16)
	}
	return s.changes
}

// Due says why a decision about replicas is due. It does not wait: where many causes have not been
// taken yet, a decision is due in any case.
func (s *Jobs) Due(cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changes <- cause:
	default:
	}
}
