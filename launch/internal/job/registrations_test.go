package job

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A worker that ended well and is not in the job is named, once the report that it had joined would
// have come. People are warned once.
func TestWhoNeverJoined(t *testing.T) {
	o := newOutput()
	a := registrations{nodes: map[control.Presence]bool{{Role: roleServer, Process: 9}: true}}
	n := afterExit(worker(2, "d1"), 0)
	n.started = o.now
	if got := a.unjoined([]*Node{n}, o.now.Add(joinedReportTime-1)); got != nil || a.any() {
		t.Errorf("before the time is over: got %q", got)
	}
	if got := a.unjoined([]*Node{n}, o.now.Add(joinedReportTime)); !slices.Equal(got, []string{"worker 2 on d1"}) {
		t.Errorf("got %q, want worker 2", got)
	}
	a.nodes[control.Presence{Role: roleWorker, Process: 2}] = true
	if got := a.unjoined([]*Node{n}, o.now.Add(time.Hour)); got != nil || !a.any() {
		t.Errorf("when it is there: got %q", got)
	}
	a.warn(o, "one")
	a.warn(o, "two")
	wantDid(t, o, "warned twice", "warn: one; "+howToJoin)
}

// Of a process that failed before the job was complete people are told so, and what would help.
func TestWhatIsSaidOfFailuresBeforeTheJobIsComplete(t *testing.T) {
	shrinks := &settings{Elastic: Elastic{OnWorkerLoss: LossShrink}}
	again := &settings{Elastic: Elastic{OnWorkerLoss: LossShrink, Rejoin: 2}}
	third := worker(2, "d1")
	third.attempt = 2
	for _, tc := range []struct {
		n        *Node
		complete bool
		set      *settings
		want     string
	}{
		{worker(2, "d1"), true, shrinks, ""},
		{worker(2, "d1"), false, &settings{Elastic: Elastic{OnWorkerLoss: LossFail}}, ""},
		{&Node{Role: roleScheduler}, false, shrinks, ""},
		{worker(2, "d1"), false, shrinks, "--rejoin 1"},
		{worker(2, "d1"), false, again, ", before the job was complete"},
		{third, false, again, "3 times in a row"},
	} {
		a := registrations{complete: tc.complete}
		if got := a.beforeComplete(tc.n, tc.set); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s, complete %t: got %q, want %q", tc.n.Name(), tc.complete, got, tc.want)
		}
	}
}

// A scheduler is started again at once, then after longer and longer pauses, and not for ever; a long
// life counts as a new beginning.
func TestHowOftenASchedulerIsStartedAgain(t *testing.T) {
	var p endpoint
	short, long := process.Exit{Elapsed: time.Second}, process.Exit{Elapsed: longLife}
	var waits []time.Duration
	for range 3 {
		wait, ok := p.again(short)
		if waits = append(waits, wait); !ok {
			t.Fatal("it is not started again")
		}
	}
	if want := []time.Duration{0, time.Second / 4, time.Second / 2}; !slices.Equal(waits, want) {
		t.Errorf("pauses %s, want %s", waits, want)
	}
	for range maxRestarts {
		p.again(short)
	}
	if _, ok := p.again(short); ok {
		t.Errorf("it is started again %d times", p.restarts)
	}
	if wait, ok := p.again(long); wait != 0 || !ok {
		t.Errorf("after a long life: %s, %t", wait, ok)
	}
}

// The first scheduler chooses address and port, unless the user did; those after it have to be found
// there.
func TestWhereSchedulersListen(t *testing.T) {
	for _, tc := range []struct{ line, fixed, want string }{
		{"10.0.0.7:4711", "", "10.0.0.7:4711"}, {"0.0.0.0:4711", "", "10.0.0.1:4711"}, {"10.0.0.7:4711", "10.0.0.1", "10.0.0.1:4711"}, {"10.0.0.7:0", "", ""}, {"x", "", ""},
	} {
		p := endpoint{address: "10.0.0.1"}
		err := p.listens(&Node{Host: "d1"}, tc.line, tc.fixed)
		if got := p.address + ":" + p.port; err == nil && got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%q: got %s, %v, want %s", tc.line, got, err, tc.want)
		}
		if tc.want != "" && (p.listensAgain(&Node{}, tc.line) != nil || p.listensAgain(&Node{}, "10.0.0.7:1") == nil) {
			t.Errorf("%q: another port is taken, or this one is not", tc.line)
		}
	}
	p := endpoint{address: "10.0.0.1"}
	if got := []string{p.serves(":9090"), p.serves(":9090"), p.serves("10.0.0.2:1")}; !slices.Equal(got, []string{"10.0.0.1:9090", "", "10.0.0.2:1"}) {
		t.Errorf("metrics are shown at %q", got)
	}
	asked := endpoint{address: "10.0.0.1", metrics: ":9090"}
	if got := asked.serves(":9090"); got != "10.0.0.1:9090" {
		t.Errorf("metrics on the port that was asked for are shown at %q", got)
	}
}

// All hosts that were not reached are named, in their order; those of a start that was given up
// only where that took too long.
func TestWhyAJobWasNotStarted(t *testing.T) {
	for _, tc := range []struct {
		aborted error
		late    bool
		lost    int
	}{{nil, false, 2}, {errors.New("stopped"), false, 0}, {errors.New("gave up"), true, 2}} {
		s := startup{unreached: make(map[int]error), failed: make(map[uint32]error), aborted: tc.aborted, late: tc.late}
		s.unreach(&connection{id: 2, key: "d2", host: at("d2")}, errors.New("launch: two"))
		s.unreach(&connection{id: 1, host: at("d1")}, errors.New("one"))
		s.failed[4] = errors.New("three")
		s.fail([]*Node{worker(4, "d1")}, nil)
		if got := s.err.Error(); got != "one\nlaunch: two\nthree" || !s.bad() || len(s.lostHosts) != tc.lost {
			t.Errorf("aborted %v, late %t: got %q, %+v", tc.aborted, tc.late, got, s.lostHosts)
		}
	}
	given := startup{aborted: errors.New("stopped by interrupt")}
	if given.fail(nil, nil); given.err.Error() != "launch: stopped by interrupt" {
		t.Errorf("got %q", given.err)
	}
}
