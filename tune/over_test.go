package tune

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// oneTrial is a study whose first trial runs.
func oneTrial(t *testing.T, change func(*Config)) (*Study, Trial, *Reporter) {
	t.Helper()
	cfg := Config{Space: Space{Real("x", 0, 1)}, Metric: "v", Samples: 2, Logger: killConfig("").Logger}
	if change != nil {
		change(&cfg)
	}
	s, err := newStudy(cfg, vfs.OS{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.TryAsk()
	if err != nil {
		t.Fatal(err)
	}
	return s, x, s.Reporter(x)
}

// An attempt may end while it writes a checkpoint, cut off by its deadline say: nothing of it is
// kept, and the search goes on.
func TestACheckpointWhoseAttemptEndsMeanwhileIsNotKept(t *testing.T) {
	s, x, r := oneTrial(t, func(c *Config) { c.Dir = t.TempDir() })
	var folder string
	err := r.Checkpoint(1, func(dir string) error {
		folder = filepath.Dir(dir)
		return s.Finish(x.Number, Fail(NodeLost, errors.New("gone")))
	})
	if !errors.Is(err, ErrStop) || !strings.Contains(err.Error(), "attempt 1 has ended") {
		t.Errorf("got error %v, want %v, as attempt 1 is over", err, ErrStop)
	}
	free(t, s)
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("%s has %v (%v), want nothing", folder, left, err)
	}
	if x, err := s.TryAsk(); err != nil || x.Number != 0 || x.Attempts != 2 || len(x.Checkpoints) != 0 {
		t.Errorf("asked again: got trial %d attempt %d with checkpoints %v (%v), want trial 0 attempt 2 with none", x.Number, x.Attempts, x.Checkpoints, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// free checks that no call has left the study locked.
func free(t *testing.T, s *Study) {
	t.Helper()
	if !s.rec.mu.TryLock() {
		t.Fatal("the study is still locked")
	}
	s.rec.mu.Unlock()
}

// An answer that is not on the disk is none: who hears Continue goes on with a trial whose report
// the log will never have.
func TestAnAnswerThatIsNotOnTheDiskIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the times in the log are of one length
		begin := func(room int64) (*Study, Trial, *vfs.Mem) {
			disk := &vfs.Mem{}
			s, err := newStudy(killConfig("d"), &vfs.Faulty{FS: disk, CrashAfter: -1, Room: room})
			if err != nil {
				t.Fatal(err)
			}
			x, err := s.TryAsk()
			if err != nil {
				t.Fatal(err)
			}
			return s, x, disk
		}
		s, _, disk := begin(-1)
		size := len(read(t, disk, filepath.Join("d", studydir.LogName)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s, x, _ := begin(int64(size)) // the next event has no room
		defer s.Close()
		if d, err := s.Tell(x.Number, 1, map[string]float64{"v": 1}); !errors.Is(err, vfs.ErrFull) || d.Action != "" {
			t.Errorf("got %v, %v, want no decision and %v", d.Action, err, vfs.ErrFull)
		}
	})
}

// A trial that has reported nothing that counts has no result.
func TestATrialWithoutAResultHasNone(t *testing.T) {
	for _, scope := range []Scope{BestReport, LastReport} {
		s, x, r := oneTrial(t, func(c *Config) { c.Scope, c.KeepDiverged = scope, true })
		if got := s.Result().Value(x); !math.IsNaN(got) {
			t.Errorf("%v: the value of a trial that has just begun: got %v, want NaN", scope, got)
		}
		if err := r.Report(1, map[string]float64{"v": math.NaN()}); err != nil {
			t.Fatal(err)
		}
		res := s.Result()
		best := res.BestTrial()
		if got := res.Value(res.Trials()[0]); !math.IsNaN(got) || best.Number != -1 || !math.IsNaN(res.Value(best)) {
			t.Errorf("%v: after a report that is NaN: got the value %v, the best trial %d with %v, want NaN, -1 and NaN", scope, got, best.Number, res.Value(best))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The trial that comes with an error is none, and asking for its value is no panic.
func TestTheTrialOfAnErrorHasNoValue(t *testing.T) {
	s, _, _ := oneTrial(t, nil)
	defer s.Close()
	res := s.Result()
	for _, metric := range []string{"loss", "v"} { // whose mode is not clear, and that nobody reported
		best, value, err := res.BestBy(metric, Auto)
		if err == nil || best.Number != -1 || !math.IsNaN(value) || !math.IsNaN(res.Value(best)) {
			t.Errorf("%s: got trial %d with %v (%v), want -1 without a value, and an error", metric, best.Number, value, err)
		}
	}
}

// Integers of all types up to the largest of 64 bits with a sign are parameters.
func TestTheLargestIntegersAreParameters(t *testing.T) {
	for _, v := range []any{int64(math.MaxInt64), uint64(math.MaxInt64), uint(math.MaxInt64)} {
		if p, err := NewParams("n", v); err != nil || p.Int("n") != math.MaxInt64 {
			t.Errorf("%T %v: got %v (%v), want it as it is", v, v, p, err)
		}
	}
	if _, err := NewParams("n", uint64(math.MaxInt64+1)); err == nil || !strings.Contains(err.Error(), "9223372036854775808 is above 9223372036854775807") {
		t.Errorf("one more: got error %v, want one with both numbers", err)
	}
}

// A study without a folder keeps checkpoints in a temporary one, which goes when it is closed.
func TestCheckpointsOfAStudyWithoutAFolderAreTemporary(t *testing.T) {
	t.Chdir(t.TempDir())
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s, _, r := oneTrial(t, nil)
	var folder string
	if err := r.Checkpoint(1, func(dir string) error { folder = dir; return os.WriteFile(filepath.Join(dir, "state"), nil, 0o666) }); err != nil {
		t.Fatal(err)
	}
	own, err := r.Folder()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, own} {
		if !strings.HasPrefix(path, temp) {
			t.Errorf("got the folder %s, want one in %s", path, temp)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("after Close %s has %v (%v), want nothing", temp, left, err)
	}
}

// What a trial has after it took a donor's place is judged by what it keeps: the best of its steps
// up to the donor's, wherever that is.
func TestTheBestOfWhatAnExploitKeepsStays(t *testing.T) {
	for _, values := range [][]float64{{3, 2, 9, 1}, {2, 3, 9, 1}, {3, 3, 9, 1}, {math.NaN(), 3, 9, 1}} {
		s, _, donor := oneTrial(t, func(c *Config) { c.Scheduler, c.KeepDiverged = takes{}, true })
		x, err := s.TryAsk()
		if err != nil {
			t.Fatal(err)
		}
		taker := s.Reporter(x)
		for step := 1; step <= 2; step++ {
			if err := errors.Join(donor.Checkpoint(step, func(string) error { return nil }), donor.Report(step, map[string]float64{"v": 10})); err != nil {
				t.Fatal(err)
			}
		}
		for i, v := range values {
			err = taker.Report(i+1, map[string]float64{"v": v})
		}
		if !errors.Is(err, ErrPause) {
			t.Fatalf("%v: the last report: got %v, want %v", values, err, ErrPause)
		}
		s.View(func(v View) {
			if u := v.Trial(1); v.Result(u) != 3 || len(u.Reports) != 2 {
				t.Errorf("%v: the result of the first two: got %v of %d, want 3", values, v.Result(u), len(u.Reports))
			}
		})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
