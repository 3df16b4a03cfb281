package tune

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// erratic is a scheduler that uses all there is: it decides by its own state, by rng, by the
// view, and gives orders.
type erratic struct {
	FIFO
	seen    int
	started map[int]int
}

func (x *erratic) Started(_ View, trial int) {
	if x.started == nil {
		x.started = map[int]int{}
	}
	x.started[trial]++
}

func (x *erratic) Reported(v View, trial int, rng *rand.Rand) Decision {
	x.seen++
	t := v.Trial(trial)
	d := Go()
	d.Rung, d.Value, d.Cutoff = x.seen%3, t.Reports[len(t.Reports)-1].Value, float64(x.seen)/7
	switch u := rng.Float64(); {
	case lastStep(t) >= 8:
		d.Action, d.Rule = Complete, "all steps"
	case u < 0.08:
		d.Action, d.Rule = Stop, "bad luck"
	case u < 0.25:
		d.Action, d.Rule = Pause, fmt.Sprintf("pause %d", x.seen)
	case u < 0.40:
		donor := int(u*1e6) % v.Len()
		d.Action, d.Rule, d.Donor = Exploit, "take", donor
		d.Params = MustParams("x", rng.Float64(), "kind", "b")
	case u < 0.45:
		d = Decision{} // a sloppy one
	}
	for u := range v.Trials() {
		d.Competitors = append(d.Competitors, u.Number)
		if u.State == Paused && x.seen%4 == 0 {
			d.Others = append(d.Others, TrialDecision{Trial: u.Number, Action: []Action{GoOn, Stop, Exploit}[x.seen%3], Rule: "order", Donor: trial, Params: u.Params})
		}
		if u.State == Running && u.Number != trial && x.seen%11 == 0 {
			d.Others = append(d.Others, TrialDecision{Trial: u.Number, Action: Pause, Rule: "make room"})
		}
	}
	return d
}

func (x *erratic) Next(v View) TrialChoice {
	for t := range v.Trials() {
		if t.State == Paused && x.seen > 10+t.Number {
			return TrialChoice{Kind: ChoosePaused, Trial: t.Number, Rule: "promote"}
		}
	}
	return TrialChoice{}
}

// picky is a suggester that looks at what there is and sometimes waits.
type picky struct{}

func (picky) Suggest(v View, number int, rng *rand.Rand) (Params, error) {
	if number > 4 && v.Count(Running) > 2 {
		return Params{}, ErrWait
	}
	sum := 0.0
	for t := range v.Trials() {
		if r := v.Result(t); r == r {
			sum += r
		}
	}
	return v.Space().Fill(v.Fixed(number), func(p Param, _ Params) (any, error) {
		return p.FromUnit(math.Mod(rng.Float64()+sum, 1)), nil
	})
}

func killConfig(dir string) Config {
	return Config{Space: Space{Real("x", 0, 1), Choice("kind", "a", "b")}, Metric: "v", Mode: Max, Samples: 20, Seed: 7, Dir: dir, Resume: ResumeAuto,
		Suggester: picky{}, Scheduler: &erratic{}, CheckpointBytes: 60, Logger: slog.New(slog.DiscardHandler)}
}

// simulate drives a study with up to four trials at once, whose reports come in an order that
// depends on nothing but what was reported already. It ends with the first error.
func simulate(s *Study, checkpoints bool) error {
	type run struct {
		t    Trial
		r    *Reporter
		step int
	}
	var running []*run
	for {
		for len(running) < 4 {
			t, err := s.TryAsk()
			if errors.Is(err, ErrWait) || errors.Is(err, ErrDone) && len(running) > 0 {
				break
			}
			if errors.Is(err, ErrDone) {
				return nil
			}
			if err != nil {
				return err
			}
			x := &run{t, s.Reporter(t), 1}
			if dir, step, ok := x.r.Restore(); ok {
				b, err := os.ReadFile(filepath.Join(dir, "state"))
				if err != nil || string(b) != fmt.Sprintf("state at %02d", step) {
					return fmt.Errorf("trial %d restores from %s: %q (%v)", t.Number, dir, b, err)
				}
				x.step = step + 1
			}
			for ; ; x.step++ { // what it reported before
				known, ok := t.AtStep(x.step)
				if !ok {
					break
				}
				if d, err := s.Tell(t.Number, x.step, map[string]float64{"v": -1}); err != nil || d.Action != Continue {
					return fmt.Errorf("trial %d tells step %d again: %v (%v); it was %+v", t.Number, x.step, d, err, known)
				}
			}
			running = append(running, x)
		}
		slices.SortFunc(running, func(a, b *run) int {
			x, y := mix(uint64(a.t.Number), uint64(a.step)), mix(uint64(b.t.Number), uint64(b.step))
			return b2i(x > y) - b2i(x < y)
		})
		x := running[0]
		if checkpoints && x.step%2 == 0 {
			err := x.r.Checkpoint(x.step, func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "state"), fmt.Appendf(nil, "state at %02d", x.step), 0o666)
			})
			if err != nil {
				return err
			}
		}
		var ended error
		if mix(uint64(x.t.Number), uint64(x.step))%40 == 0 {
			ended = Fail(NodeLost, errors.New("lost"))
		} else {
			d, err := s.Tell(x.t.Number, x.step, map[string]float64{"v": x.t.Params.Float("x") * float64(x.step), "other": math.Inf(1)})
			if err != nil {
				return err
			}
			if ended = answer(x.t.Number, x.step, d); ended == nil {
				x.step++
				continue
			}
		}
		if err := s.Finish(x.t.Number, ended); err != nil {
			return err
		}
		running = running[1:]
	}
}

// whole runs the search without a break and returns its hash, log and how many operations its files
// took.
func whole(t *testing.T, checkpoints bool) (hash string, log []byte, operations int) {
	t.Helper()
	disk, dir := &vfs.Mem{}, t.TempDir()
	fsys := &vfs.Faulty{FS: disk, CrashAfter: -1, Room: -1}
	s, err := newStudy(killConfig(dir), fsys)
	if err != nil {
		t.Fatal(err)
	}
	if err := simulate(s, checkpoints); err != nil {
		t.Fatal(err)
	}
	hash = s.Result().DecisionHash()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return hash, read(t, disk, filepath.Join(dir, studydir.LogName)), fsys.Operations()
}

func read(t *testing.T, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Size()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// finished resumes a search until it is over, and checks its hash and that its log replays.
func finished(t *testing.T, what string, fsys vfs.FS, dir, want string, checkpoints bool) {
	t.Helper()
	s, err := newStudy(killConfig(dir), fsys)
	if err != nil {
		t.Fatalf("%s: resume: %v", what, err)
	}
	if err := simulate(s, checkpoints); err != nil {
		t.Fatalf("%s: go on: %v", what, err)
	}
	if got := s.Result().DecisionHash(); got != want {
		t.Errorf("%s: decisions differ from those of the search without a break: hash %.8s, want %.8s", what, got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	again, err := replay(fsys, filepath.Join(dir, studydir.LogName), killConfig(dir))
	if err != nil || again.DecisionHash != want {
		t.Errorf("%s: replay: %v, hash %.8s, want %.8s", what, err, again.DecisionHash, want)
	}
}

func TestASearchThatCrashesAnywhereGoesOnWithTheSameDecisions(t *testing.T) {
	want, log, operations := whole(t, true)
	if n := bytes.Count(log, []byte("\n")); n < 200 || !bytes.Contains(log, []byte(`"kind":"drop"`)) || !bytes.Contains(log, []byte(`"action":"exploit"`)) {
		t.Fatalf("the search has only %d events, or no drop, or no exploit:\n%s", n, log)
	}
	if bytes.Contains(log, []byte(`"kind":"checkpoint"`)) {
		t.Errorf("a checkpoint is an event of its own: a cut between it and the report of its step would lose the report")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	points := 7
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		points = 200
	}
	if testing.Short() {
		points = 4 // the folders of checkpoints take their time
	}
	for range points {
		dir := t.TempDir()
		disk := &vfs.Mem{}
		at, lose, twice := rng.IntN(operations), rng.IntN(2) == 0, rng.IntN(3) == 0
		what := fmt.Sprintf("crash after %d of %d operations, unsynced lost %t, twice %t", at, operations, lose, twice)
		for crashes := 0; crashes <= b2i(twice); crashes++ {
			s, err := newStudy(killConfig(dir), &vfs.Faulty{FS: disk, CrashAfter: at, Room: -1})
			if err == nil {
				err = simulate(s, true)
				if closeErr := s.Close(); err == nil {
					err = closeErr
				}
			}
			if err != nil && !errors.Is(err, vfs.ErrCrashed) {
				t.Fatalf("%s: got %v, want a crash", what, err)
			}
			disk = disk.Crash(!lose, !lose)
			at = rng.IntN(operations)
		}
		finished(t, what, disk, dir, want, true)
	}
}

func TestALogCutAnywhereGoesOnWithTheSameDecisions(t *testing.T) {
	want, log, _ := whole(t, false)
	var cuts []int
	inside, every := 15, 3
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		inside, every = 150, 1
	}
	events := 0
	for i, c := range log { // after events
		if c == '\n' {
			if events%every == 0 {
				cuts = append(cuts, i+1)
			}
			events++
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range inside { // and inside lines
		cuts = append(cuts, rng.IntN(len(log)))
	}
	dir := t.TempDir()
	for _, cut := range cuts {
		disk := &vfs.Mem{}
		if err := vfs.WriteFile(disk, filepath.Join(dir, studydir.LogName), func(w io.Writer) error { _, err := w.Write(log[:cut]); return err }); err != nil {
			t.Fatal(err)
		}
		finished(t, fmt.Sprintf("cut at byte %d of %d", cut, len(log)), disk, dir, want, false)
	}
}

// lastStep is the step of a trial's newest report, or -1.
func lastStep(t *Trial) int {
	if step, ok := t.LastStep(); ok {
		return step
	}
	return -1
}
