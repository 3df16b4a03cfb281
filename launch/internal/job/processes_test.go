package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// The scheduler numbers processes from the last one on that the job began with, also where the
// launcher has given numbers of its own before the first report: those are far above.
func TestNumbersOfTheLauncherAreNotTheSchedulers(t *testing.T) {
	s := &script{}
	for _, line := range []string{"new workers=1 hosts=d1 elastic=1 rejoin=1 state=1", "connected", "connected", "address ip=10.0.0.9", "started process=1",
		"listens process=1 at=10.0.0.9:4711", "announced", "notice machine=2", "started process=2", "ended process=1 signal=9"} {
		s.do(t, line)
	}
	var reports []uint32
	for _, a := range s.core.step(started{3, 103}, s.now) {
		if x, ok := a.(ask); ok && x.Op == control.OpReport {
			reports = append(reports, x.Observed.Last)
		}
	}
	if !slices.Equal(reports, []uint32{3}) {
		t.Errorf("the scheduler is told of the last numbers %d, want 3", reports)
	}
	if n := s.core.procs.scheduler(); n.process != ownNumbers+1 {
		t.Errorf("the scheduler that is started again has the number %d, want %d", n.process, ownNumbers+1)
	}
}

// The present scheduler is the newest one, also while it is being started.
func TestTheNewestSchedulerIsThePresentOne(t *testing.T) {
	scheduler := func(process uint32) *Node { return &Node{Role: roleScheduler, process: process} }
	p := processes{nodes: []*Node{afterExit(scheduler(1), 0), worker(2, "d1")}, launching: map[uint32]*Node{}}
	if n := p.scheduler(); n.process != 1 || !p.schedulerDone() {
		t.Errorf("process %d, done %t", n.process, p.schedulerDone())
	}
	p.launching[9] = scheduler(9)
	if n := p.scheduler(); n.process != 9 || p.schedulerDone() {
		t.Errorf("process %d, done %t while it is being started", n.process, p.schedulerDone())
	}
}

// What is reported of a process depends on where in the table it is; of those that ended only the
// ones are reported that are still wanted.
func TestWhatIsReportedOfProcesses(t *testing.T) {
	waiting, failed := worker(5, "d2"), afterExit(worker(6, "d3"), 127)
	waiting.arriving = true
	p := processes{nodes: []*Node{{Role: roleScheduler, process: 1}, worker(2, "d1"), afterExit(worker(3, "d1"), 1), afterExit(worker(7, "d1"), 1)},
		launching: map[uint32]*Node{4: worker(4, "d1")}, arrivals: []*Node{waiting}, unstarted: []*Node{failed}}
	want := wantedState{revision: 1, processes: map[uint32]control.WantedProcess{3: {}, 6: {}}}
	show := func() (list []string) {
		for _, x := range p.observed(time.Unix(1000, 0), &want) {
			list = append(list, fmt.Sprint(x.Process, " ", x.State))
		}
		return list
	}
	if got := show(); !slices.Equal(got, []string{"2 running", "3 ended", "4 running", "5 waiting", "6 ended"}) {
		t.Errorf("got %q", got)
	}
	delete(want.processes, 6)
	if got := show(); !slices.Equal(got, []string{"2 running", "3 ended", "4 running", "5 waiting"}) || len(p.unstarted) > 0 {
		t.Errorf("once it is no longer wanted: got %q, unstarted %d", got, len(p.unstarted))
	}
}

// A worker is coming while its host is being reached, and while it is not judged why one ended.
func TestWorkersThatAreComing(t *testing.T) {
	awaited := afterExit(worker(2, "d1"), 1)
	awaited.awaited = true
	for name, tc := range map[string]struct {
		p                       processes
		coming, awaits, working bool
	}{
		"none":            {processes{nodes: []*Node{afterExit(worker(2, "d1"), 0)}}, false, false, false},
		"one runs":        {processes{nodes: []*Node{worker(2, "d1")}}, false, false, true},
		"one is awaited":  {processes{nodes: []*Node{awaited}}, true, true, false},
		"one not started": {processes{unstarted: []*Node{awaited}}, true, true, false},
		"one arrives":     {processes{arrivals: []*Node{worker(3, "d1")}}, true, false, false},
		"a server does":   {processes{arrivals: []*Node{{Role: roleServer}}}, false, false, false},
	} {
		if p := tc.p; p.anyComing() != tc.coming || p.anyAwaited() != tc.awaits || p.working(false) != tc.working {
			t.Errorf("%s: coming %t, awaited %t, working %t, want %v", name, p.anyComing(), p.anyAwaited(), p.working(false), tc)
		}
	}
}

// Since when the scheduler is silent: since it said something, or was started, or was given something
// to say.
func TestSinceWhenTheSchedulerIsSilent(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	scheduler, ended := &Node{Role: roleScheduler, started: at(10)}, afterExit(worker(2, "d1"), 1)
	ended.started, ended.Exit.Elapsed = at(12), 8*time.Second
	p := processes{nodes: []*Node{scheduler, ended}}
	for _, tc := range []struct {
		heard   int64
		awaited bool
		want    int64
	}{{5, false, 10}, {15, false, 15}, {15, true, 20}, {25, true, 25}} {
		if ended.awaited = tc.awaited; !p.silentSince(at(tc.heard)).Equal(at(tc.want)) {
			t.Errorf("heard at %d, awaited %t: silent since %d, want %d", tc.heard, tc.awaited, p.silentSince(at(tc.heard)).Unix(), tc.want)
		}
	}
}
