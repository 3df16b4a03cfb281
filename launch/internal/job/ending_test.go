package job

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// What decides the exit code, the strongest first: a signal, a checkpoint with which the job was to
// stop, a start that failed, the process that is to blame, and that something failed at all.
func TestWhatDecidesTheExitCode(t *testing.T) {
	failed := afterExit(worker(2, "d1"), 3)
	stop := &control.Failure{Code: control.NoCheckpoint}
	for name, tc := range map[string]struct {
		e    ending
		x    circumstances
		want int
	}{
		"nothing happened": {ending{}, circumstances{}, 0},
		"a signal":         {ending{interrupt: signalled{syscall.SIGINT}, first: failed}, circumstances{saved: true}, 130},
		"a checkpoint":     {ending{first: failed}, circumstances{saved: true}, control.ExitCheckpointed},
		"not started":      {ending{first: failed}, circumstances{notStarted: errors.New("x")}, 1},
		"a process":        {ending{first: failed}, circumstances{}, 3},
		"the culprit":      {ending{first: failed, culprit: afterExit(worker(3, "d1"), 4)}, circumstances{}, 4},
		"blame alone":      {ending{culprit: failed}, circumstances{}, 0},
		"no checkpoint":    {ending{}, circumstances{stop: stop}, 1},
		"cancelled":        {ending{cancelled: true}, circumstances{}, 1},
	} {
		if got := tc.e.code(tc.x, &processes{}); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

// The process that ended first is the first that failed, in whatever order their ends come; and who
// is blamed by the scheduler is the culprit, even if the job went on without it at first.
func TestWhoFailedFirst(t *testing.T) {
	o := newOutput()
	late, early, lost := afterExit(worker(2, "d1"), 1), afterExit(worker(3, "d1"), 1), afterExit(worker(4, "d1"), 1)
	late.Exit.Elapsed, lost.lost, lost.fate = time.Second, true, fate{code: control.FateLost}
	e := ending{reported: &control.Failure{Code: control.NodeLost, Process: 4}}
	nodes := []*Node{late, early, lost}
	e.failed(o, late, nodes, "")
	e.failed(o, early, nodes, "")
	if e.first != early || e.culprit != lost || lost.fate.code != "" || e.blamed() != lost {
		t.Errorf("first is %s, culprit %s", e.first.Name(), e.culprit.Name())
	}
	wantDid(t, o, "two failures", "error: worker 2 on d1 failed: exit 1; stopping the others")
}

// An error that no restart can mend decides, whoever ended before.
func TestAFinalErrorDecides(t *testing.T) {
	o := newOutput()
	first, final := afterExit(worker(2, "d1"), 1), afterExit(worker(3, "d1"), 78)
	e := ending{first: first}
	e.failedFinally(o, final, true)
	if e.blamed() != final || e.failure.Code != control.NodeFinal || e.failure.Process != 3 {
		t.Errorf("blamed is %s, failure %+v", e.blamed().Name(), e.failure)
	}
	wantDid(t, o, "final", "error: worker 3 on d1 failed: exit 78 (no restart can mend this); stopping the others")
}

// A worker that was declared lost and ended with code 0 did not close its store: that is told.
func TestALostWorkerThatEndedWellDidNotClose(t *testing.T) {
	n := afterExit(worker(2, "d1"), 0)
	e := ending{failure: &control.Failure{Code: control.NodeLost, Role: roleWorker, Process: 2}, first: n}
	if got := e.cause(circumstances{}, &processes{nodes: []*Node{n}}); got.Code != control.NotClosed {
		t.Errorf("got %+v", got)
	}
	n.Exit.Code = 1
	if got := e.cause(circumstances{}, &processes{nodes: []*Node{n}}); got.Code != control.NodeLost {
		t.Errorf("got %+v", got)
	}
}

// The last line says of a process that failed what may help: who killed it, or its last line.
func TestTheLastLineOfAFailedProcess(t *testing.T) {
	killed, spoke, asked := afterExit(worker(2, "d1"), 0), afterExit(worker(2, "d1"), 1), afterExit(worker(2, "d1"), 143)
	killed.Exit.Signal, spoke.Last = syscall.SIGKILL, "no such file"
	for want, n := range map[string]*Node{"out of memory": killed, ": no such file": spoke, outside: asked} {
		e := ending{first: n}
		if got := e.explain(circumstances{}, &processes{}, "", ""); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// How a job ends that was to stop with a checkpoint.
func TestHowAStopWithACheckpointEnds(t *testing.T) {
	done, stopped := afterExit(worker(2, "d1"), 0), afterExit(worker(3, "d1"), 143)
	for name, tc := range map[string]struct {
		s     checkpointStop
		nodes []*Node
		want  string
	}{
		"not asked for":   {checkpointStop{}, nil, ""},
		"a checkpoint":    {checkpointStop{why: "x", stopped: &control.Stopped{Steps: 5}}, nil, "checkpointed x"},
		"a worker cannot": {checkpointStop{why: "x", stopped: &control.Stopped{Reason: "disk full"}}, nil, "no_checkpoint x: disk full"},
		"never complete":  {checkpointStop{why: "x", late: true}, nil, "no_checkpoint x: the job was not complete 0s later (--checkpoint-timeout)"},
		"workers finish":  {checkpointStop{why: "x", asked: true}, []*Node{done}, ""},
		"one stopped":     {checkpointStop{why: "x", asked: true}, []*Node{done, stopped}, "no_checkpoint x: all workers ended, and none reported a checkpoint"},
	} {
		got := ""
		if f := tc.s.failure(&processes{nodes: tc.nodes}, nil); f != nil {
			got = string(f.Code) + " " + f.Text
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	late := checkpointStop{why: "x", late: true}
	if f := late.failure(&processes{}, errors.New("x")); f == nil {
		t.Error("a start that took too long for the checkpoint is not told as that")
	}
}

// The time for a checkpoint only gets shorter, and a refusal takes it back.
func TestTheTimeForACheckpointGetsShorter(t *testing.T) {
	o := newOutput()
	s := checkpointStop{why: "x"}
	s.bound(o, time.Minute)
	s.boundBy(o, o.now.Add(time.Hour))
	s.boundBy(o, o.now.Add(time.Second))
	if got := o.timers.next().Sub(o.now); got != time.Second || len(o.timers.list) != 1 || s.limit != time.Second {
		t.Errorf("%d timers, the first in %s, limit %s; want one in 1s", len(o.timers.list), got, s.limit)
	}
	if s.withdraw(o); s.requested() || len(o.timers.list) > 0 {
		t.Errorf("it is still asked for: %+v", s)
	}
}

// A launcher that did not run is to blame only for a failure soon after, and only if hosts were lost.
func TestWhenAStandstillIsToBlame(t *testing.T) {
	for _, tc := range []struct {
		gap, after time.Duration
		lost, want bool
	}{{time.Minute, time.Second, true, true}, {time.Minute, time.Second, false, false}, {time.Minute, 2 * time.Minute, true, false}, {time.Second, time.Second, true, false}} {
		o := newOutput()
		var s standstill
		now := o.now.Add(tc.gap)
		s.look(o, now, 10*time.Second)
		s.failedAt(now.Add(tc.after))
		n := worker(2, "d1")
		n.Exit.Lost = tc.lost
		if got := s.failure(&processes{nodes: []*Node{n}}, 10*time.Second) != nil; got != tc.want {
			t.Errorf("%+v: to blame %t", tc, got)
		}
	}
}

// A job without a worker was stopped by others only if all its workers had left cleanly.
func TestAJobWasStoppedByOthersOnlyIfAllHadLeft(t *testing.T) {
	for done, want := range map[bool]control.Code{true: control.StoppedByOthers, false: control.NoWorkerLeft} {
		asked := afterExit(worker(2, "d1"), 143)
		e := ending{lost: asked}
		if e.noWorkerLeft(newOutput(), done); e.failure.Code != want || e.first != asked {
			t.Errorf("all had left %t: got %s, want %s", done, e.failure.Code, want)
		}
	}
}

// A worker that ended well is to blame for what it reported, not for a store that it did not close.
func TestAnErrorOfAWorkerThatEndedWellIsTold(t *testing.T) {
	n := afterExit(worker(2, "d1"), 0)
	e := ending{failure: &control.Failure{Code: control.NodeError, Role: roleWorker, Process: 2}, first: n}
	if got := e.cause(circumstances{}, &processes{nodes: []*Node{n}}); got.Code != control.NodeError {
		t.Errorf("got %+v", got)
	}
}
