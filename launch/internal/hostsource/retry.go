package hostsource

import (
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A host that could not join, or that was lost, is asked for again while the source says that it is
// running: an instance runs before its sshd answers. So is one that the job had no place for. The
// first time is after two intervals between answers, the next ones after twice the time, at most
// lastRetry.
const lastRetry = 5 * time.Minute

// retries are the hosts that are to be in the job and are not, by Key.
type retries map[hosts.Host]retry

type retry struct {
	count int
	next  time.Time
}

// due takes note of what the job says of its hosts, and returns those of the wanted ones that are
// to be asked for again now. interval is that of the answers.
func (r retries) due(now time.Time, interval time.Duration, wanted []hosts.Host, job []control.Host) (again []hosts.Host) {
	status := make(map[hosts.Host]string, len(job))
	for _, s := range job {
		if h, err := hosts.ParseHost(s.Host); err == nil {
			status[h.Key()] = s.Status
		}
	}
	outside := make(map[hosts.Host]bool)
	for _, h := range wanted {
		key := h.Key()
		switch s, known := status[key]; {
		case s == control.AddQueued || s == control.RemovalQueued:
			// The host is joining or leaving. What becomes of it is decided soon.
			outside[key] = true
			continue
		case known && s != control.HostFailed:
			continue
		}
		outside[key] = true
		t, waits := r[key]
		if waits && now.Before(t.next) {
			continue
		}
		if waits {
			again = append(again, h)
			t.count++
		}
		t.next = now.Add(min(2*interval<<min(t.count, 10), lastRetry))
		r[key] = t
	}
	for key := range r {
		if !outside[key] {
			delete(r, key)
		}
	}
	return again
}
