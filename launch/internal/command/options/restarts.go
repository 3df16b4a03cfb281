package options

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/agent"
)

// Survival says how a job outlives failures of another kind than those of a worker or a server: that
// of the whole job, of the scheduler, and of a host that its provider takes back. What follows the
// loss of a worker (--on-worker-loss, --rejoin) or a server (--backups) is in elastic.go.
type Survival struct {
	// Restarts is how often a job that has failed is started again; 0: never.
	Restarts int

	// State is where the scheduler keeps its state; empty: the job decides.
	State string

	// Spot is the provider whose notices are watched for; empty: none.
	Spot string
}

// readState reads how often the job may be restarted, and where its scheduler keeps its state. here
// says that the scheduler runs on this machine: a path of another one cannot be made absolute.
func (s *Survival) readState(c *cli.Context, here bool) error {
	if s.Restarts = c.Int("restarts"); s.Restarts < 0 || s.Restarts > maxRetries {
		return command.Usagef("--restarts is %d, want 0, for never, to %d", s.Restarts, maxRetries)
	}
	s.State = c.String("state")
	switch {
	case !c.IsSet("state"):
		return nil
	case strings.HasPrefix(s.State, "etcd://"):
		u, err := url.Parse(s.State)
		if err != nil || u.Hostname() == "" || u.Port() == "" {
			return command.Usagef("--state %q is not an address of etcd; write etcd://host:port/prefix", s.State)
		}
		s.State = strings.TrimSuffix(s.State, "/")
	case strings.Contains(s.State, "://"):
		return command.Usagef("--state %q: want a folder or etcd://host:port/prefix", s.State)
	case s.State == "":
		return command.Usagef("--state is empty; give a folder, or etcd://host:port/prefix")
	case here:
		abs, err := filepath.Abs(s.State)
		if err != nil {
			return command.Usagef("--state: %v", err)
		}
		s.State = abs
	case !filepath.IsAbs(s.State):
		return command.Usagef("--state %s is on the scheduler's host; give an absolute path", s.State)
	}
	return nil
}

// readSpot reads whose notices are watched for.
func (s *Survival) readSpot(c *cli.Context) error {
	if s.Spot = c.String(agent.SpotFlag); s.Spot != "" {
		return agent.CheckSpot(s.Spot)
	}
	return nil
}
