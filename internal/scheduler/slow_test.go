package scheduler

import (
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/telemetry"
	"github.com/paragon-train/paragon/internal/wire"
)

// A slowJob has 3 workers, nodes 3 to 5, and 2 servers with 4 shards each. It makes a step of one second each second.
type slowJob struct {
	*measuredJob
	steps  float64
	late   [3]float64 // seconds by which a worker's compute is longer
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
			last = int(j.steps) % 3 // by a little
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

// The scheduler names the worker that has become slow ten steps later, forgets it when it has left, and goes on after a restart.
func TestSlowWorkerIsNamed(t *testing.T) {
	j := &slowJob{measuredJob: newMeasuredJob(t, 3, 2)}
	j.run(60)
	if s := j.why(); len(s) != 0 {
		t.Errorf("all are equally fast: %v", s)
	}
	j.late[1] = .3
	j.run(11) // the last heartbeat of a server is a step old
	want := control.Slow{Node: 4, Rank: 1, Host: "w", Share: 1, Rounds: 10, Gap: .3, Steps: 10, Seconds: 10, StepSeconds: 1.3, Cause: control.SlowCompute, Ratio: 1.3}
	if s := j.why(); len(s) != 1 || s[0] != want {
		t.Errorf("after ten steps: got %+v, want %+v", s, want)
	}
	j.run(60)
	if s := j.why(); len(s) != 1 || s[0].Node != 4 || s[0].Steps != 30 || s[0].Rounds != 30 {
		t.Errorf("after a minute: got %+v, want node 4 over 30 steps", s)
	}

	core, err := Restore(j.set, j.now, j.kept.list())
	if err != nil {
		t.Fatal(err)
	}
	j.core = core
	if s := j.why(); len(s) != 0 {
		t.Errorf("after a restart: got %+v, want no one yet", s)
	}
	j.run(13)
	if s := j.why(); len(s) != 1 || s[0].Node != 4 || s[0].Steps > 13 {
		t.Errorf("13 steps after a restart: got %+v, want node 4 by these steps alone", s)
	}
	j.ask(&wire.Leave{Node: 4, OK: true})
	if s := j.why(); len(s) != 0 {
		t.Errorf("it has left: got %+v, want no one", s)
	}
}
