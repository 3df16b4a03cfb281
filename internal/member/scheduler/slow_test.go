package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A slowJob has 3 workers, nodes 3 to 5, and 2 servers with 4 shards each. It makes a step of one
// second each second.
type slowJob struct {
	*measuredJob
	steps float64
	// late has the seconds by which a worker's compute is longer.
	late   [3]float64
	blames [3]telemetry.Blame
	rounds float64
	time   [3]struct{ step, wait float64 }
}

func (j *slowJob) run(steps int) {
	for range steps {
		j.now = j.now.Add(time.Second)
		j.steps++
		last, most := 0, 0.
		for i, x := range j.late {
			if x > most {
				last, most = i, x
			}
		}
		if most == 0 {
			// It is the last one by a little.
			last = int(j.steps) % 3
		}
		j.rounds += 4
		b := &j.blames[last]
		b.Node, b.Rounds, b.Seconds = uint64(3+last), b.Rounds+4, b.Seconds+4*(most+.01)
		var blames []telemetry.Blame
		for _, b := range j.blames {
			if b.Node != 0 {
				blames = append(blames, b)
			}
		}
		for server := range uint64(2) {
			r := telemetry.Record{Samples: []telemetry.Sample{sample(telemetry.Rounds, j.rounds), sample(telemetry.Shards, 4)}, Blames: blames}
			j.ask(&wire.Heartbeat{Node: 1 + server, Record: r.Append(nil)})
		}
		for i := range j.late {
			t := &j.time[i]
			t.step += 1 + most
			t.wait += most - j.late[i]
			j.send(uint64(3+i), sample(telemetry.Steps, j.steps), sample(telemetry.StepSeconds, t.step), sample(telemetry.WaitSeconds, t.wait), sample(telemetry.DataSeconds, 0), sample(telemetry.SaveSeconds, 0))
		}
	}
}

func (j *slowJob) why() []control.Slow {
	j.t.Helper()
	why, err := query[control.Why](j.measuredJob, control.Request{Op: control.OpWhy})
	if err != nil {
		j.t.Fatal(err)
	}
	if t := j.telemetry("steps"); len(t.Slow) != len(why.Slow) || len(t.Slow) > 0 && t.Slow[0] != why.Slow[0] {
		j.t.Errorf("telemetry names %+v, and why %+v", t.Slow, why.Slow)
	}
	return why.Slow
}

// The scheduler names the worker that has become slow within ten steps, forgets it when it has
// left, and goes on after a restart.
func TestSlowWorkerIsNamed(t *testing.T) {
	j := &slowJob{measuredJob: newMeasuredJob(t, 3, 2)}
	j.run(60)
	if s := j.why(); len(s) != 0 {
		t.Errorf("all are equally fast: %v", s)
	}
	j.late[1] = .3
	j.run(9)
	if s := j.why(); len(s) != 1 || s[0].Node != 4 || s[0].Rank != 1 || s[0].Host != "w" || s[0].Share < .9 || s[0].Gap < .25 || s[0].Steps > 9 || s[0].Cause != control.SlowCompute || s[0].Ratio < 1.2 {
		t.Errorf("after nine steps, the tenth not being told of yet: got %+v, want node 4 by these alone", s)
	}
	j.run(60)
	s := j.why()
	if want := (control.Slow{Node: 4, Rank: 1, Host: "w", Share: 1, Rounds: 30, Gap: .3, Steps: 30, Seconds: 30, StepSeconds: 1.3, Cause: control.SlowCompute, Ratio: 1.3}); len(s) != 1 || !cmp.Equal(s[0], want, cmpopts.EquateApprox(.04, 0), cmp.Transformer("rounded", func(rounds uint64) float64 { return float64(rounds) })) {
		t.Errorf("after a minute: got %+v, want %+v, but for a round", s, want)
	}

	j.restart()
	if s := j.why(); len(s) != 0 {
		t.Errorf("after a restart: got %+v, want no one yet", s)
	}
	j.run(10)
	if s := j.why(); len(s) != 1 || s[0].Node != 4 || s[0].Steps > 10 {
		t.Errorf("ten steps after a restart: got %+v, want node 4 by these steps alone", s)
	}
	j.ask(&wire.Leave{Node: 4, OK: true})
	if s := j.why(); len(s) != 0 {
		t.Errorf("it has left: got %+v, want no one", s)
	}
	if got := j.told(); len(got) != 2 || got[0].Action != control.BecameSlow || got[1].Action != control.NotSlow || !strings.Contains(got[1].Reason, "worker 1 on w was slow for") {
		t.Errorf("got the events %+v, want SLOW and NOT_SLOW", got)
	}
}

func (j *slowJob) restart() {
	j.t.Helper()
	core, err := Restore(j.set, j.now, j.kept.list())
	if err != nil {
		j.t.Fatal(err)
	}
	j.core = core
}

// told are the events that say who is slow.
func (j *slowJob) told() (list []control.Event) {
	j.t.Helper()
	events, err := query[control.Events](j.measuredJob, control.Request{Op: control.OpEvents})
	if err != nil {
		j.t.Fatal(err)
	}
	for _, e := range events.Events {
		if e.OfWorker() {
			list = append(list, e)
		}
	}
	return list
}

// A worker that the rule named once was slow for no time that is known.
func TestNoTimeIsToldOfOneThatWasSlowOnce(t *testing.T) {
	j := &slowJob{measuredJob: newMeasuredJob(t, 3, 2)}
	j.run(30)
	j.core.slow.now = slowness{node: 5, since: j.now, seen: j.now, hold: slowHold}
	j.run(12)
	if got := j.told(); len(got) != 1 || got[0].Reason != "worker 2 on w is no longer slow" {
		t.Errorf("got the events %+v, want one that says that worker 2 on w is no longer slow", got)
	}
}

// An event tells when a worker has become slow, within ten steps, and one when it is so no longer.
// One that is slow, but for some steps, gives no further ones.
func TestEventsTellWhoIsSlow(t *testing.T) {
	j := &slowJob{measuredJob: newMeasuredJob(t, 3, 2)}
	j.run(30)
	j.late[2] = .3
	j.run(10)
	got := j.told()
	if len(got) != 1 || got[0].Action != control.BecameSlow || got[0].Rank != 2 || got[0].Host != "w" || got[0].Role != control.Worker || got[0].PID != 7 || !strings.Contains(got[0].Reason, "worker 2 on w is slow: last in ") {
		t.Fatalf("after ten steps: got the events %+v, want one of worker 2", got)
	}
	if len(j.log) != 1 || j.log[0] != got[0].Reason {
		t.Errorf("got the warnings %q, want %q", j.log, got[0].Reason)
	}
	for range 10 {
		j.late[2] = 0
		j.run(5)
		j.late[2] = .3
		j.run(25)
	}
	if got := j.told(); len(got) != 1 {
		t.Errorf("it was fast for five steps now and then: got the events %+v, want no further one", got)
	}
	// The worker is slow as before.
	j.restart()
	j.run(30)
	if got := j.told(); len(got) != 1 {
		t.Errorf("after a restart: got the events %+v, want no further one", got)
	}
	j.late[2] = 0
	j.run(70)
	if got := j.told(); len(got) != 2 || got[1].Action != control.NotSlow || got[1].Rank != 2 || !strings.Contains(got[1].Reason, "worker 2 on w is no longer slow, after ") {
		t.Errorf("it is as fast as the others: got the events %+v, want one that says so", got)
	}
	j.late[0] = .3
	j.run(30)
	j.late[0], j.late[1] = 0, .4
	j.run(40)
	if got := j.told(); len(got) != 5 || got[2].Rank != 0 || got[3].Rank != 0 || got[3].Action != control.NotSlow || got[4].Rank != 1 || got[4].Action != control.BecameSlow {
		t.Errorf("one after the other: got the events %+v, want SLOW and NOT_SLOW of worker 0, then SLOW of worker 1", got)
	}
}
