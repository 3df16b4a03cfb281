package tune

import (
	"sync"
	"time"

	"github.com/paragon-train/paragon/tune/internal/trialjob"
	"github.com/paragon-train/paragon/tune/jobs"
)

// slowestProbe is nodes.Config.SlowestProbe. Tests with real hosts make it shorter.
var slowestProbe time.Duration

// A nodeSource is what says which nodes there are.
type nodeSource struct {
	hostFile string
	cluster  *jobs.Cluster
}

// A jobSetup is what Jobs have found: the nodes, once, and what runs attempts there. The nodes of
// this machine alone are found again when a field of the Jobs names others meanwhile.
type jobSetup struct {
	// mu guards the rest.
	mu     sync.Mutex
	found  bool
	from   nodeSource
	err    error
	runner *trialjob.Runner
}

// get finds the nodes by find, unless they are known.
func (s *jobSetup) get(now nodeSource, find func() (*trialjob.Runner, error)) (*trialjob.Runner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if local := s.from == (nodeSource{}); !s.found || local && now != s.from {
		s.found, s.from = true, now
		s.runner, s.err = find()
	}
	return s.runner, s.err
}
