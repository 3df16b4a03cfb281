package elastic

import "time"

const (
	// mostRefused is how many changes in turn a job may fail to carry out.
	mostRefused = 3
	// fixedFor is how long its replicas are left alone after that.
	fixedFor = 10 * time.Minute
)

// refusals counts the changes that a job could not carry out, and says when no more should be tried
// for a while. The zero value has none. It has no clock of its own.
type refusals struct {
	inTurn int
	// reason is why no change is tried until the time; "": changes are tried.
	reason string
	until  time.Time
}

// note takes note of a change that was not carried out.
func (r *refusals) note(why string, now time.Time) {
	if r.inTurn++; r.inTurn >= mostRefused {
		r.reason, r.until = why, now.Add(fixedFor)
	}
}

// reached takes note of a change that was carried out.
func (r *refusals) reached() { r.inTurn = 0 }

// fixed is why no change should be tried now; "": it may be.
func (r *refusals) fixed(now time.Time) string {
	if r.reason != "" && now.After(r.until) {
		*r = refusals{}
	}
	return r.reason
}
