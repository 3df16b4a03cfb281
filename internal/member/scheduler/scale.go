package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// launcherTime is how long the launcher may take to answer. The answer takes it milliseconds.
const launcherTime = 4 * time.Second

// A scaler knows the number of workers that was asked for. The launcher knows which hosts have free
// slots: it takes or refuses the number, starts and releases workers, and says if some could not be
// started. The scheduler keeps the limits, and knows when the number is reached.
type scaler struct {
	set *Settings
	// taken is the newest number that the launcher has taken.
	taken scaling
	// asked is a newer one that it has not answered yet, and waits are the requests for it.
	asked scaling
	waits []scaleWait
	dirty bool
}

// A scaling is a number of workers that was asked for, as it is recorded.
type scaling struct {
	// Number is that of the event that tells the launcher; 0: nothing was asked for.
	Number    uint64
	Workers   int
	Placement []control.WorkersOnHost `json:",omitempty"`
	// Reached says that there were so many workers.
	Reached bool `json:",omitempty"`
	// Short is why the launcher cannot start all.
	Short string `json:",omitempty"`
	// Lost is why there are fewer again.
	Lost string `json:",omitempty"`
}

type scaleWait struct {
	request  uint64
	deadline time.Time
}

// same reports whether the scaling is what a request asks for.
func (s *scaling) same(r control.Request) bool {
	return s.Workers == r.Wanted() && slices.Equal(s.Placement, r.Placement)
}

// ask takes a request for a number of workers that keeps the limits. staying is how many there are.
func (s *scaler) ask(out *output, request uint64, r control.Request, staying int) {
	wait := scaleWait{request, out.now.Add(launcherTime)}
	switch {
	case s.asked.Number > 0 && s.asked.same(r):
		s.waits = append(s.waits, wait)
		return
	case s.asked.Number == 0 && s.taken.Number > 0 && s.taken.same(r) && s.state(staying) != control.ScaleTooFew:
		out.report(request, &control.Done{Scale: s.taken.Number})
		return
	}
	out.events.clearScale(out, s.asked.Number)
	out.events.clearScale(out, s.taken.Number)
	s.answer(out, "a newer request replaces it: "+control.ScaleText(r.Wanted(), r.Placement))
	s.asked, s.waits, s.dirty = scaling{Number: out.events.last + 1, Workers: r.Wanted(), Placement: r.Placement}, []scaleWait{wait}, true
	out.event(control.Event{Action: control.Scaling, Workers: s.asked.Workers, Placement: r.Placement})
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

// answer ends a request that the launcher has not answered, and answers it with a refusal, or
// without one.
func (s *scaler) answer(out *output, refusal string) {
	for _, w := range s.waits {
		done := &control.Done{Error: refusal}
		if refusal == "" {
			done.Scale = s.asked.Number
		}
		out.report(w.request, done)
	}
	s.asked, s.waits, s.dirty = scaling{}, nil, true
}

// end forgets what was asked for, because hosts are added or removed by name.
func (s *scaler) end(out *output, why string) {
	if s.asked.Number > 0 || s.taken.Number > 0 {
		s.answer(out, why)
		s.taken = scaling{}
	}
}

// launcherSays takes what the launcher says of a scaling. It returns why that is ignored. counting
// are the workers that count.
func (s *scaler) launcherSays(out *output, r control.Request, counting []*node) string {
	switch {
	case r.Scale == s.asked.Number && r.State == control.ScaleRefused:
		out.note("scale %d refused: %s", r.Scale, r.Reason).Event = joblog.Scale.With("action", r.State, "reason", r.Reason)
		s.answer(out, r.Reason)
	case r.Scale == s.asked.Number && r.State == control.ScaleUnderWay:
		taken := s.asked
		if len(r.Placement) == len(taken.Placement) {
			// The launcher spells the hosts as the job does.
			taken.Placement = r.Placement
		}
		s.answer(out, "")
		s.taken = taken
		s.check(out, counting)
	case r.Scale == s.taken.Number && r.State == control.ScaleTooFew && !s.taken.Reached:
		s.taken.Short, s.dirty = r.Reason, true
		out.event(control.Event{Action: control.ScaleShort, Scale: r.Scale, Reason: r.Reason})
	default:
		return fmt.Sprintf("scale %d is not under way: the newest is %d", r.Scale, max(s.asked.Number, s.taken.Number))
	}
	return ""
}

// check notes that the number of workers is reached, when other workers count.
func (s *scaler) check(out *output, counting []*node) {
	t := &s.taken
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
	if s.taken.Number > 0 {
		s.taken.Lost, s.dirty = why, true
	}
}

// state is what has become of the number that the launcher has taken.
func (s *scaler) state(staying int) string {
	switch t := &s.taken; {
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
	newest, state := s.taken, s.state(staying)
	if s.asked.Number > 0 {
		newest, state = s.asked, control.ScaleAsked
	}
	if newest.Number == 0 {
		return nil
	}
	reason := newest.Short
	if newest.Lost != "" {
		reason = newest.Lost
	}
	return &control.Scale{Number: newest.Number, Workers: newest.Workers, Placement: newest.Placement, Present: staying, State: state, Reason: reason}
}

// pass refuses requests that the launcher has not answered in time.
func (s *scaler) pass(out *output) {
	s.waits = slices.DeleteFunc(s.waits, func(w scaleWait) bool {
		late := !out.now.Before(w.deadline)
		if late {
			out.report(w.request, &control.Done{Error: fmt.Sprintf("launch has not answered for %v; see launch ctl status", launcherTime), Again: true})
		}
		return late
	})
}

func (s *scaler) next(bool) (t time.Time) {
	for _, w := range s.waits {
		t = sooner(t, w.deadline)
	}
	return t
}

func (s *scaler) forget(request uint64) {
	s.waits = slices.DeleteFunc(s.waits, func(w scaleWait) bool { return w.request == request })
}

// A keptScale is the record of a scaler.
type keptScale struct {
	Taken scaling `json:",omitzero"`
	Asked scaling `json:",omitzero"`
}

func (s *scaler) keep(out *output) {
	if s.dirty {
		s.dirty = false
		out.put("scale", s.kept())
	}
}

func (s *scaler) kept() keptScale { return keptScale{s.taken, s.asked} }

func (s *scaler) restore(_ string, value []byte) error {
	var k keptScale
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	s.taken, s.asked = k.Taken, k.Asked
	return nil
}
