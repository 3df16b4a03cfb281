package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A scaler knows the number of workers that was asked for last, and how far it has been carried out.
// This file has its state. What it does for a request is in scale.go, and the plan that it makes
// first in scaleplan.go.
type scaler struct {
	set *Settings
	// newest is the number that was asked for last.
	newest scaling
	dirty  bool
}

// A scaling is a number of workers that was asked for, and what is left to be done for it. Workers
// are started first; others are released when those count, or when there would be more than
// --max-workers, so that a job that moves to other hosts trains meanwhile.
type scaling struct {
	// Number is that of the event that tells of it; 0: nothing was asked for.
	Number  uint64
	Workers int
	// Placement has the hosts as the job spells them; none: the scheduler chooses.
	Placement []control.WorkersOnHost `json:",omitempty"`
	// Reached says that there were so many workers.
	Reached bool `json:",omitempty"`
	// Short is why not all can be started.
	Short string `json:",omitempty"`
	// Lost is why there are fewer again.
	Lost string `json:",omitempty"`
	// Starts are workers that are still to be started.
	Starts []starts `json:",omitempty"`
	// Releases are the processes of workers that are still to leave, in their order.
	Releases []uint32 `json:",omitempty"`
	// Failed are hosts that could not start all: no more are started there.
	Failed []string `json:",omitempty"`
}

// text is what was asked for, for people.
func (s *scaling) text() string { return control.ScaleText(s.Workers, s.Placement) }

// same reports whether the scaling is what a request asks for.
func (s *scaling) same(r control.Request) bool {
	return s.Workers == r.Wanted() && slices.EqualFunc(s.Placement, r.Placement, func(a, b control.WorkersOnHost) bool {
		return a.Workers == b.Workers && strings.EqualFold(a.Host, b.Host)
	})
}

// cannot says which limit a number of workers does not keep; empty: none. servers is how many there
// are.
func (s *scaler) cannot(r control.Request, servers int) string {
	wanted, e := r.Wanted(), s.set.Elastic
	text := "cannot scale to " + control.ScaleText(wanted, r.Placement)
	switch {
	case wanted < e.MinWorkers:
		return fmt.Sprintf("%s: want at least %d (--min-workers)", text, e.MinWorkers)
	case e.MaxWorkers > 0 && wanted > e.MaxWorkers:
		return fmt.Sprintf("%s: want at most %d (--max-workers)", text, e.MaxWorkers)
	case wanted+servers > cluster.MaxNodes:
		return fmt.Sprintf("%s: the job has %s, want at most %d workers and servers in all", text, plural.Of(servers, "server"), cluster.MaxNodes)
	}
	return ""
}

// end forgets what was asked for, because hosts are added or removed by name.
func (s *scaler) end() {
	if s.newest.Number > 0 {
		s.newest, s.dirty = scaling{}, true
	}
}

// underWay reports whether the number is being carried out.
func (s *scaler) underWay() bool {
	return s.newest.Number > 0 && !s.newest.Reached && s.newest.Short == ""
}

// tooFew tells that the number of workers cannot be reached.
func (s *scaler) tooFew(out *output, why string) {
	if t := &s.newest; t.Short == "" && !t.Reached {
		t.Short, s.dirty = why, true
		out.event(control.Event{Action: control.ScaleShort, Scale: t.Number, Reason: why})
	}
}

// check notes that the number of workers is reached, when other workers count.
func (s *scaler) check(out *output, counting []*node) {
	t := &s.newest
	if t.Number == 0 || out.job.phase != wire.PhaseRunning || !t.matches(counting) {
		return
	}
	if t.Lost != "" || t.Short != "" {
		t.Lost, t.Short, s.dirty = "", "", true
	}
	if !t.Reached {
		t.Reached, s.dirty = true, true
		out.event(control.Event{Action: control.Scaled, Scale: t.Number, Workers: t.Workers})
	}
}

// matches reports whether the workers that count are those that are wanted. A worker that is about
// to leave is not.
func (s *scaling) matches(counting []*node) bool {
	on := make(map[string]int)
	for _, n := range counting {
		if !n.stays() {
			return false
		}
		on[n.Host]++
	}
	return len(counting) == s.Workers && !slices.ContainsFunc(s.Placement, func(p control.WorkersOnHost) bool { return on[p.Host] != p.Workers })
}

// lost notes why there are fewer workers than were asked for.
func (s *scaler) lost(why string) {
	if s.newest.Number > 0 {
		s.newest.Lost, s.dirty = why, true
	}
}

// state is what has become of the number.
func (s *scaler) state(staying int) string {
	switch t := &s.newest; {
	case t.Short != "":
		return control.ScaleTooFew
	case !t.Reached:
		return control.ScaleUnderWay
	case staying < t.Workers:
		return control.ScaleTooFew
	}
	return control.ScaleReached
}

// status is the newest number of workers that was asked for; nil: none was.
func (s *scaler) status(staying int) *control.Scale {
	t := &s.newest
	if t.Number == 0 {
		return nil
	}
	return &control.Scale{Number: t.Number, Workers: t.Workers, Placement: t.Placement, Present: staying, State: s.state(staying), Reason: cmp.Or(t.Lost, t.Short)}
}

func (s *scaler) keep(out *output) {
	if s.dirty {
		s.dirty = false
		out.put("scale", s.newest)
	}
}

func (s *scaler) restore(_ string, value []byte) error {
	return json.Unmarshal(value, &s.newest)
}
