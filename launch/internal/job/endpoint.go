package job

import (
	"fmt"
	"net"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
)

// The limits of what the launcher starts again by itself: a scheduler (endpoint.again), and a whole
// job (Repeat). Package scheduler has constants of the same names for workers and servers, whose
// restarts it decides, and sends the delay with each process that it wants.
const (
	// firstBackOff comes before a scheduler or a job is started again. It doubles each time, up
	// to lastBackOff.
	firstBackOff = time.Second
	lastBackOff  = 30 * time.Second
	// longLife is how long a scheduler lived that was no failed attempt.
	longLife = time.Minute
	// maxRestarts bounds how often a scheduler is started again in a row.
	maxRestarts = 8
)

// maxServerRestarts is how often the scheduler has a server started again in a row. The launcher only
// names it in messages, and asks whether it is 0.
const maxServerRestarts = 8

// An endpoint is where the job's schedulers listen, one after the other: all on the address and port
// that the first one chose, so that the others find them.
type endpoint struct {
	address, port string
	// metrics is where the scheduler serves metrics: as asked for, then as it reports, so that
	// one that is started again has the same port.
	metrics      string
	metricsShown bool
	// restarts is how often in a row one was started again.
	restarts int
	// heard is when a scheduler answered, reported or listened last.
	heard time.Time
}

// again counts a scheduler that ended, and says how long to wait until the next one is started: the
// first time not at all. It is false if there were too many.
func (p *endpoint) again(last process.Exit) (wait time.Duration, ok bool) {
	if p.restarts++; last.Elapsed >= longLife {
		p.restarts = 1
	}
	if p.restarts > 1 {
		wait = backOff(p.restarts-1) / 4
	}
	return wait, p.restarts <= maxRestarts
}

// listens takes the address on which the first scheduler listens. fixed is the address that the user
// chose; empty: none.
func (p *endpoint) listens(n *Node, line, fixed string) error {
	host, port, err := net.SplitHostPort(line)
	if err != nil || port == "0" {
		return fmt.Errorf("launch: scheduler on %s reported %q, want its host:port", n.Host, line)
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() && fixed == "" {
		p.address = host
	}
	p.port = port
	return nil
}

// listensAgain checks the address of a later one.
func (p *endpoint) listensAgain(n *Node, line string) error {
	if _, port, err := net.SplitHostPort(line); err != nil || port != p.port {
		return fmt.Errorf("launch: scheduler on %s reported %q, want port %s as before", n.Host, line, p.port)
	}
	return nil
}

// serves takes the address on which the scheduler serves metrics. It returns that address as others
// reach it, once, although the scheduler may be started again.
func (p *endpoint) serves(addr string) (shown string) {
	if p.metrics != addr || !p.metricsShown {
		shown = p.reachable(addr)
	}
	p.metrics, p.metricsShown = addr, true
	return shown
}

// reachable is an address on the scheduler's host, as others reach it.
func (p *endpoint) reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort(p.address, port)
	}
	return addr
}

// backOff is how long to wait before the attempt, from 1 on.
func backOff(attempt int) time.Duration {
	return min(firstBackOff<<min(attempt-1, 10), lastBackOff)
}
