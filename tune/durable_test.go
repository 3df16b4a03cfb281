package tune

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// What a driver hears of, the start of a trial or an answer, survives a crash the moment after.
func TestWhatATrialHearsIsOnTheDisk(t *testing.T) {
	disk := &vfs.Mem{}
	s, err := newStudy(killConfig("d"), disk)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kept := func(what, want string) {
		t.Helper()
		if log := read(t, disk.Crash(false, false), filepath.Join("d", studydir.LogName)); !bytes.Contains(log, []byte(want)) {
			t.Errorf("after %s the disk has no %s:\n%s", what, want, log)
		}
	}
	kept("NewStudy", `"kind":"study"`)
	for n := range 4 {
		x, err := s.TryAsk()
		if err != nil {
			t.Fatal(err)
		}
		kept("TryAsk", fmt.Sprintf(`"kind":"start","trial":%d`, n))
		for step := 1; step <= 3; step++ {
			d, err := s.Tell(x.Number, step, map[string]float64{"v": float64(step)})
			if err != nil {
				t.Fatal(err)
			}
			kept("Tell", fmt.Sprintf(`"kind":"report","trial":%d,"attempt":1,"step":%d`, n, step))
			if d.Action != Continue {
				break
			}
		}
		// What is told again is answered from the disk too.
		if _, err := s.Tell(x.Number, 1, map[string]float64{"v": 1}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReportCountsOnceAndStepsIncrease(t *testing.T) {
	s, err := newStudy(Config{Space: Space{Real("x", 0, 1)}, Metric: "v", Samples: 2}, vfs.OS{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x, err := s.TryAsk()
	if err != nil {
		t.Fatal(err)
	}
	tell := func(step int, v float64) (Decision, error) { return s.Tell(x.Number, step, map[string]float64{"v": v}) }
	for _, step := range []int{1, 3, 3, 1, 5, 3} {
		if d, err := tell(step, float64(step)); err != nil || d.Action != Continue {
			t.Errorf("step %d: got %v (%v)", step, d.Action, err)
		}
	}
	for step, want := range map[int]string{2: "want steps to increase: the one before was 5", -1: "want a step of 0 or more"} {
		if _, err := tell(step, 9); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("step %d: got %v, want %q", step, err, want)
		}
	}
	s.View(func(v View) {
		if got := v.Trial(0).Reports; len(got) != 3 || got[0].Value != 1 || got[1].Value != 3 || got[2].Value != 5 {
			t.Errorf("reports: got %+v, want steps 1, 3, 5", got)
		}
	})
	// Another attempt tells what it likes of steps that are past: it is told to continue.
	if err := s.Finish(x.Number, Fail(NodeLost, fmt.Errorf("gone"))); err != nil {
		t.Fatal(err)
	}
	if x, err = s.TryAsk(); err != nil || x.Number != 0 || x.Attempts != 2 {
		t.Fatalf("asked again: got trial %d attempt %d (%v)", x.Number, x.Attempts, err)
	}
	for _, step := range []int{1, 2, 4, 5, 6} {
		if d, err := tell(step, 100); err != nil || d.Action != Continue {
			t.Errorf("attempt 2 step %d: got %v (%v)", step, d.Action, err)
		}
	}
	s.View(func(v View) {
		if got := v.Trial(0).Reports; len(got) != 4 || got[2].Value != 5 || got[3].Value != 100 {
			t.Errorf("reports: got %+v, want steps 1, 3, 5 as they were, and 6", got)
		}
	})
	if d, err := s.Tell(7, 1, nil); err == nil {
		t.Errorf("a trial that is not there: got %v", d)
	}
}

func TestAnInterruptedTrialIsAskedForAgain(t *testing.T) {
	cfg := Config{Space: Space{Real("x", 0, 1)}, Metric: "v", Samples: 3, Dir: "d", Resume: ResumeAuto, Logger: killConfig("").Logger}
	disk := &vfs.Mem{}
	s, err := newStudy(cfg, disk)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(want, attempt int) {
		t.Helper()
		if x, err := s.TryAsk(); err != nil || x.Number != want || x.Attempts != attempt {
			t.Fatalf("asked: got trial %d attempt %d (%v), want %d, %d", x.Number, x.Attempts, err, want, attempt)
		}
	}
	ask(0, 1)
	ask(1, 1)
	if err := s.Finish(0, Fail(NodeLost, fmt.Errorf("gone"))); err != nil { // waits to be tried again
		t.Fatal(err)
	}
	if err := s.Interrupt(1); err != nil {
		t.Fatal(err)
	}
	ask(0, 2)
	ask(1, 2)
	if err := s.Finish(0, Fail(NodeLost, fmt.Errorf("gone"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Interrupt(1); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = newStudy(cfg, disk); err != nil { // now the one that ran comes before the one that waited
		t.Fatal(err)
	}
	defer s.Close()
	ask(1, 3)
	ask(0, 3)
	ask(2, 1)
}

// takes makes trial 1 take trial 0's checkpoint when it is at step 4.
type takes struct{ FIFO }

func (takes) Reported(v View, trial int, _ *rand.Rand) Decision {
	d := Go()
	if t := v.Trial(trial); trial == 1 && lastStep(t) == 4 && len(t.Changes) == 0 {
		d.Action, d.Rule, d.Params = Exploit, "take", MustParams("x", 0.5)
	}
	return d
}

func TestAnExploitReplacesWhatTheTrialReportedBeyondTheDonorsStep(t *testing.T) {
	s, err := newStudy(Config{Space: Space{Real("x", 0, 1)}, Metric: "v", Samples: 2, Scheduler: takes{}, KeepDiverged: true}, vfs.OS{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask := func() (Trial, *Reporter) {
		x, err := s.TryAsk()
		if err != nil {
			t.Fatal(err)
		}
		return x, s.Reporter(x)
	}
	tell := func(r *Reporter, step int, v float64) error { return r.Report(step, map[string]float64{"v": v}) }
	_, donor := ask()
	_, taker := ask()
	for step := 1; step <= 2; step++ {
		if err := donor.Checkpoint(step, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := tell(donor, step, 10); err != nil {
			t.Fatal(err)
		}
	}
	for step := 1; step <= 3; step++ {
		if err := tell(taker, step, float64(step)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tell(taker, 4, 4); !errors.Is(err, ErrPause) {
		t.Fatalf("step 4: got %v, want %v", err, ErrPause)
	}
	if err := s.Finish(1, ErrPause); err != nil {
		t.Fatal(err)
	}
	x, taker := ask()
	if _, step, ok := taker.Restore(); x.Number != 1 || x.Params.Float("x") != 0.5 || !ok || step != 2 || taker.Donor() != 0 {
		t.Fatalf("goes on: trial %d with %v from step %d of trial %d (%t), want trial 1 with x=0.5 from step 2 of trial 0", x.Number, x.Params, step, taker.Donor(), ok)
	}
	for step := 3; step <= 4; step++ {
		if err := tell(taker, step, 1.5); err != nil {
			t.Fatal(err)
		}
	}
	s.View(func(v View) {
		u := v.Trial(1)
		got := ""
		for _, r := range u.Reports {
			got += fmt.Sprintf(" %d:%v", r.Step, r.Value)
		}
		if want := " 1:1 2:2 3:1.5 4:1.5"; got != want || v.Result(u) != 2 {
			t.Errorf("reports:%s with best %v, want%s with 2", got, v.Result(u), want)
		}
	})
}
