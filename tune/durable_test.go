package tune

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/vfs"
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
		if log := read(t, disk.Crash(false, false), filepath.Join("d", logName)); !bytes.Contains(log, []byte(want)) {
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
