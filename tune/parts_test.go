package tune

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
	"github.com/paragon-train/paragon/tune/internal/logfile"
)

// A trial is once in the queue, and trials that are queued again go ahead of those that wait.
func TestTrialsStartInTheOrderOfTheQueue(t *testing.T) {
	var q startQueue
	for _, n := range []int{1, 2, 1, 3} {
		q.add(n)
	}
	q.remove(2)
	q.remove(7)
	done := q.ahead()
	q.add(5)
	q.add(4)
	done()
	if want := []int{5, 4, 1, 3}; !slices.Equal(q.numbers, want) || !q.has(5) || q.has(2) {
		t.Errorf("got %v, want %v", q.numbers, want)
	}
}

// A resume undoes all that ended a study but that a pruner had enough.
func TestAResumeUndoesWhatEndedAStudy(t *testing.T) {
	s := stops{enough: "accuracy reached 0.9"}
	s.exhaust(&Event{Rule: "deadline of noon"})
	s.halt(&Event{Rule: "timeout of 1s", Error: "x"})
	s.resume()
	if want := (stops{enough: "accuracy reached 0.9"}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// Of two reports the one that violates the constraints less is the better one, and of those that
// violate them alike the one with the better value.
func TestReportsAreRankedByConstraintsAndThenByValue(t *testing.T) {
	g := goals{metric: "loss", mode: Min, further: []string{"memory"}, constraints: []Constraint{{Metric: "memory", Bound: 8}}}
	report := func(loss, memory float64) *Report {
		return &Report{Value: loss, Metrics: MetricsOf(map[string]float64{"loss": loss, "memory": memory})}
	}
	for _, tc := range []struct {
		a, b *Report
		want bool
	}{
		{report(2, 8), report(1, 9), true},
		{report(1, 10), report(2, 9), false},
		{report(1, 8), report(2, 7), true},
		{report(math.NaN(), 8), report(2, 8), false},
		{report(2, 8), report(math.NaN(), 8), true},
	} {
		if got := g.outranks(tc.a, tc.b); got != tc.want {
			t.Errorf("%v outranks %v: got %v, want %v", tc.a.Metrics, tc.b.Metrics, got, tc.want)
		}
	}
	if got := g.lacks(MetricsOf(map[string]float64{"loss": 1})); got != "memory" {
		t.Errorf("a report of the loss alone lacks %q, want memory", got)
	}
	if _, _, err := g.choice(MetricsOf(map[string]float64{"a": 1, "b": 2})); !errors.Is(err, ErrNoMetric) {
		t.Errorf("the metric of two was chosen: %v", err)
	}
}

// A new trial takes as long as the median of those that ended; before one has, as long as the
// longest so far.
func TestAHistoryTellsHowLongATrialTakes(t *testing.T) {
	running := &Trial{State: Running, run: runState{active: true, since: 10 * time.Second, before: time.Second}}
	h := history{running, {State: Pruned, Elapsed: 3 * time.Second}}
	if got := h.trialTime(15 * time.Second); got != 6*time.Second {
		t.Errorf("with none that ended: got %v, want the 6s of the one that runs", got)
	}
	for _, d := range []time.Duration{5, 1, 2} {
		h = append(h, &Trial{State: Completed, Elapsed: d * time.Second})
	}
	if got := h.trialTime(15 * time.Second); got != 2*time.Second {
		t.Errorf("with three that ended: got %v, want 2s", got)
	}
	if got := h.rungAfter(4); got != 8 {
		t.Errorf("without a rung above step 4: got %d, want 8", got)
	}
}

// ledgerOf is the ledger of a study of one real, with these trials.
func ledgerOf(t *testing.T, cfg Config, trials ...*Trial) *ledger {
	t.Helper()
	cfg.Space, cfg.Metric = Space{Real("x", 0, 1)}, "v"
	l, err := newLedger(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range trials {
		x.Number, x.Best = i, -1
		for k := range x.Reports {
			r := &x.Reports[k]
			r.Step, r.Action = k+1, Continue
			if isFinite(r.Value) && (x.Best < 0 || l.view.goals.outranks(r, &x.Reports[x.Best])) {
				x.Best = k
			}
		}
		state := x.State
		x.State = ""
		l.view.trials = append(l.view.trials, x)
		l.view.setState(x, state)
		l.view.noteBest(x, false)
	}
	return l
}

// valued is a trial that reported these values.
func valued(s State, values ...float64) *Trial {
	t := &Trial{State: s}
	for _, v := range values {
		t.Reports = append(t.Reports, Report{Value: v})
	}
	return t
}

// The earlier of equal trials is the best, and one that loses its best report makes room for
// another.
func TestStandingsKnowTheBestTrial(t *testing.T) {
	v := ledgerOf(t, Config{}, valued(Completed, 1, math.NaN()), valued(Running, 3, 2), valued(Completed, 3)).view
	if v.best != 1 {
		t.Errorf("got trial %d, want 1", v.best)
	}
	x := v.trials[1]
	x.Reports, x.Best = x.Reports[1:], 0
	v.noteBest(x, true)
	if v.best != 2 {
		t.Errorf("after its best report is gone: got trial %d, want 2", v.best)
	}
	if n := v.Count(Completed); n != 2 {
		t.Errorf("got %d completed trials, want 2", n)
	}
}

// Older checkpoints go before newest ones, and those of worse trials first. The newest of the best
// trial, of one that may go on, and those that are needed stay.
func TestOlderCheckpointsOfWorseTrialsGoFirst(t *testing.T) {
	l := ledgerOf(t, Config{}, valued(Completed, 1), valued(Completed, 3), valued(Paused, 2))
	for _, x := range l.view.trials {
		x.Checkpoints = []Checkpoint{{Step: 1, Bytes: 1}, {Step: 2, Bytes: 1}}
	}
	needed := map[checkpoints.Name]bool{{Trial: 2, Step: 1}: true}
	var got []checkpoints.Name
	for _, c := range l.view.victims(needed) {
		got = append(got, c.Name)
	}
	want := []checkpoints.Name{{Trial: 0, Step: 1}, {Trial: 1, Step: 1}, {Trial: 0, Step: 2}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What becomes of the trials that a killed process has left is told by the resume mode alone.
func TestLeftOverTrialsAreTakenUpAsTheModeSays(t *testing.T) {
	for mode, want := range map[ResumeMode][]Event{
		ResumeAuto:     {{Kind: EventRequeue, Trials: []int{0, 3}}},
		ResumeErrored:  {{Kind: EventRequeue, Trials: []int{0, 3}}, {Kind: EventRequeue, Trials: []int{2}}},
		RestartErrored: {{Kind: EventRequeue, Trials: []int{0, 3}}, {Kind: EventRequeue, Trials: []int{2}, Fresh: true}},
		ErroredOnly:    {{Kind: EventAbandon, Trials: []int{0}}, {Kind: EventRequeue, Trials: []int{2}}},
		ResumeNew:      {{Kind: EventAbandon, Trials: []int{0}}},
	} {
		l := ledgerOf(t, Config{}, valued(Running), valued(Completed, 1), valued(Failed), valued(Stopped))
		for i := range want {
			want[i].Rule = string(mode)
		}
		if got := l.leftOver(mode); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", mode, got, want)
		}
	}
}

// A recorder numbers events, refuses them once it is closed, and takes none after one that the
// ledger could not apply: the ledger may be ahead of the log then.
func TestARecorderNumbersEventsUntilItIsClosedOrUnsound(t *testing.T) {
	open := func() *recorder {
		cfg := Config{Name: "study"}
		r := newRecorder(&cfg, ledgerOf(t, cfg))
		r.journal, r.clock.opened = logfile.New("", nil, 0, 0), r.clock.now()
		return r
	}
	r := open()
	var seen []uint64
	r.notice(func(e *Event) { seen = append(seen, e.Seq) })
	for range 3 {
		changed := r.changed
		if err := r.emit(&Event{Kind: EventOpen}, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		default:
			t.Error("an event is not told")
		}
	}
	if !slices.Equal(seen, []uint64{0, 1, 2}) || r.newest() != 2 {
		t.Errorf("got events %v, newest %d", seen, r.newest())
	}
	if _, err := r.close(func() {}); err != nil {
		t.Fatal(err)
	}
	if err := r.emit(&Event{Kind: EventOpen}, func() error { return nil }); err == nil {
		t.Error("a closed recorder took an event")
	}

	r = open()
	broken := errors.New("broken")
	if err := r.emit(&Event{Kind: EventOpen}, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if err := r.emit(&Event{Kind: EventOpen}, func() error { return nil }); !errors.Is(err, broken) {
		t.Errorf("after an event that could not be applied: got %v, want %v", err, broken)
	}
}

// An attempt that does not report in time is cancelled, but not while it waits for replicas; one
// that does not return then is given up after the grace.
func TestAWaitCancelsAnAttemptThatDoesNotReport(t *testing.T) {
	for _, paused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			w := &wait{pulse: newPulse(), cancel: cancel, log: slog.New(slog.DiscardHandler), reportTimeout: time.Minute, paused: func() bool { return paused },
				grace: time.Second, notice: noticeAfter}
			begun, done := time.Now(), make(chan error, 1)
			if paused {
				time.AfterFunc(time.Hour, func() { done <- nil })
			}
			err, gone := w.run(ctx, done)
			took, cause := time.Since(begun), context.Cause(ctx)
			if paused && (err != nil || gone || cause != nil || took != time.Hour) {
				t.Errorf("paused: got %v, gone %v, cause %v after %v", err, gone, cause, took)
			}
			if !paused && (!gone || !errors.Is(cause, errSilent) || took != time.Minute+time.Second) {
				t.Errorf("silent: gone %v, cause %v after %v, want it given up after 1m1s", gone, cause, took)
			}
			cancel(nil)
		})
	}
}
