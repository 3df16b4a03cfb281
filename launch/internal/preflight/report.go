package preflight

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A Machine is a host that could be logged in to.
type Machine interface {
	Ask(ctx context.Context, q agent.Question) (agent.Answer, error)
	Address() string
	Close() error
}

// Config says what to check.
type Config struct {
	Hosts []hosts.Host
	Dial  func(ctx context.Context, h hosts.Host) (Machine, error)

	// SyncDir must be there or be makeable. It needs rsync on both sides.
	SyncDir string

	// Copy copies a file into a folder there by rsync, for SyncDir.
	Copy func(ctx context.Context, m Machine, file, dir string) error

	// Launcher is the address of the launching machine for the hosts.
	Launcher func(reached []Machine) (string, error)

	// MaxSkew is how much clocks may differ; 0: 2 s.
	MaxSkew time.Duration

	// Timeout is for everything; 0: 1 min.
	Timeout time.Duration

	// now is time.Now, or a test's clock.
	now func() time.Time

	// lookPath is exec.LookPath, or knows a test's programs.
	lookPath func(string) (string, error)
}

// A Report is what was found out about one host.
type Report struct {
	Host     hosts.Host
	Address  string
	Skew     time.Duration
	Problems []string

	machine Machine

	// port is the host:port at which the host listens.
	port string

	// made are the folders that were made there, the innermost first.
	made []string

	// copies says that rsync can be tried.
	copies bool
}

// problem takes note of one that a person has to solve. The check goes on: one run is to name all
// that is wrong. The host is not named again in the text.
func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, strings.TrimPrefix(fmt.Sprintf(format, args...), fmt.Sprintf("launch: host %s: ", r.Host)))
}

// each calls f for all reports at once, and waits for all.
func each(reports []*Report, f func(*Report)) {
	var all sync.WaitGroup
	for _, r := range reports {
		all.Go(func() { f(r) })
	}
	all.Wait()
}
