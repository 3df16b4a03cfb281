package cudnn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
)

// tuning is a tuner whose lines are kept.
func tuning(b *bench, cache *Cache) (*Tuner, *[]string, *[]string) {
	var logged, noticed []string
	return &Tuner{Handle: b.h, Cache: cache, Stream: b.s, Repeat: 2, Any: true,
		Log:    func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) },
		Notice: func(format string, args ...any) { noticed = append(noticed, fmt.Sprintf(format, args...)) }}, &logged, &noticed
}

// choice is the name of the engine that a tuner takes.
func (b *bench) choice(t *Tuner, op Op, c Conv) (engine string) {
	b.Helper()
	b.do(func() error {
		p, err := t.Conv(op, c)
		if err != nil {
			return err
		}
		engine = p.Engine()
		return p.Close()
	})
	return engine
}

// An engine that fails when it is tried costs itself alone, in each pass, and nothing is left of
// it: no capture, no memory, no error that stays.
func TestBadEnginesCostOnlyThemselves(t *testing.T) {
	for _, k := range []struct {
		bad  int
		said string
	}{{1, "eng41 to bfloat16 gives wrong numbers"}, {2, "eng42 to bfloat16 gives wrong numbers"}, {4, ""}, {8, "eng44 to bfloat16 cannot be captured"}, {15, "eng41"}} {
		for _, op := range []Op{Forward, BackwardData, BackwardWeight} {
			for _, accumulate := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d %v %v", k.bad, op, accumulate), func(t *testing.T) {
					b := newBench(t, "cudnn_bad", k.bad)
					c := shape(BFloat16, 2, 8, 9, 7, 16, 3, 3, 1, 2)
					c.Accumulate = accumulate
					tuner, _, noticed := tuning(b, nil)
					if got := b.choice(tuner, op, c); got != "eng0 k2=18 k24=3" {
						t.Errorf("got %s, want eng0 k2=18 k24=3", got)
					}
					if said := strings.Join(*noticed, "\n"); !strings.Contains(said, k.said) || !strings.Contains(said, "measuring the fastest engines") {
						t.Errorf("users are told %q, want %q", said, k.said)
					}
					b.m.Set("cudnn_bad", 0)
					if got := b.choice(tuner, op, c); got != "eng0 k2=18 k24=3" {
						t.Errorf("after that: got %s, want eng0 k2=18 k24=3", got)
					}
					if live := b.m.Live(); live["allocations"]+live["hosts"]+live["events"]+live["graphs"]+live["execs"] != 0 {
						t.Errorf("not given back: %v", live)
					}
				})
			}
		}
	}
}

// Where no engine gives the numbers that the host computes, the fastest is taken all the same, is
// told, and is not remembered.
func TestNoRightEngineIsTold(t *testing.T) {
	b := newBench(t, "cudnn_bad", 1)
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	cache := OpenCache(filepath.Join(t.TempDir(), "c"), nil)
	tuner, _, noticed := tuning(b, cache)
	tuner.Most = 1
	if got := b.choice(tuner, Forward, c); got != "eng41" {
		t.Errorf("got %s, want eng41", got)
	}
	if said := strings.Join(*noticed, "\n"); !strings.Contains(said, "eng41 to bfloat16 gives wrong numbers") {
		t.Errorf("users are told %q", said)
	}
	if len(cache.choices) != 0 {
		t.Errorf("remembered: %v", cache.choices)
	}
}

// An engine that breaks the device ends the program, with its name, and the next start leaves it
// out.
func TestEngineThatBreaksTheDeviceIsAvoidedNextTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "choices.json")
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	t.Run("first", func(t *testing.T) {
		m := fake.New(t)
		m.Set("cudnn_bad", 16)
		ctx, err := m.Driver().NewContext(0)
		if err != nil {
			t.Fatal(err)
		}

		// A device that is lost gives nothing back.
		defer ctx.Close()
		lib, err := m.Search().Open(dl.CuDNN)
		if err != nil {
			t.Fatal(err)
		}
		err = ctx.Do(func() error {
			h, err := Open(lib, ctx)
			if err != nil {
				return err
			}
			defer h.Close()
			s, err := ctx.NewStream(0)
			if err != nil {
				return err
			}
			_, err = (&Tuner{Handle: h, Cache: OpenCache(path, nil), Stream: s, Repeat: 1}).Conv(Forward, c)
			return err
		})
		if !errors.Is(err, drv.ErrLost) || !strings.Contains(fmt.Sprint(err), "cudnn: tune eng45 for") {
			t.Errorf("got error %v, want a lost device and eng45", err)
		}
	})
	t.Run("next", func(t *testing.T) {
		b := newBench(t, "cudnn_bad", 16)
		tuner, _, _ := tuning(b, OpenCache(path, nil))
		if got := b.choice(tuner, Forward, c); got != "eng0 k2=18 k24=3" {
			t.Errorf("got %s, want eng0 k2=18 k24=3", got)
		}
	})
}

// What was chosen before is made without the heuristics, and is the same.
func TestRememberedChoicesDoNotAskTheHeuristics(t *testing.T) {
	b := newBench(t)
	cache := OpenCache(filepath.Join(t.TempDir(), "c"), nil)
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	wide, single := c, shape(Float32, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	wide.Weight = Float32
	n := Norm{N: 2, C: 8, H: 4, W: 4, Type: BFloat16, Add: true, ReLU: true, Mask: true, Running: true, Epsilon: 1e-5, Momentum: 0.1}
	g := NormGrad{N: 2, C: 8, H: 4, W: 4, Type: BFloat16, Mask: true}
	asked := 0
	b.h.trace = func(line string) {
		if line == "finalize CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR" {
			asked++
		}
	}
	choices := func() string {
		tuner, _, _ := tuning(b, cache)
		names := []string{b.choice(tuner, Forward, c), b.choice(tuner, BackwardWeight, wide), b.choice(tuner, BackwardData, single)}
		b.do(func() error {
			p, err := tuner.Norm(n)
			if err != nil {
				return err
			}
			q, err := tuner.NormGrad(g)
			if err != nil {
				return err
			}
			names = append(names, p.Engine(), q.Engine())
			return errors.Join(p.Close(), q.Close())
		})
		return strings.Join(names, ", ")
	}
	first := choices()
	if want := "eng0 k2=18 k24=3, eng0 k2=18 k24=3, legacy algo 1, eng20 k2=4, eng30"; first != want || asked == 0 {
		t.Errorf("first: got %s, want %s", first, want)
	}
	asked = 0
	if got := choices(); got != first || asked != 0 {
		t.Errorf("second: got %s with %d questions to the heuristics, want %s with none", got, asked, first)
	}
}

// A plan that is made again from its name gives the numbers of the one it was chosen for.
func TestRememberedPlansGiveTheSameNumbers(t *testing.T) {
	b := newBench(t)
	c := shape(BFloat16, 2, 8, 5, 5, 8, 3, 3, 1, 1)
	for _, op := range []Op{Forward, BackwardData, BackwardWeight} {
		d := newPass(b, rand.New(rand.NewPCG(3, 1)), op, c)
		for _, p := range plans(b, func() ([]*Plan, error) { return b.h.Plans(op, c) }) {
			var again *Plan
			b.do(func() (err error) {
				if again, err = b.h.named(op, c, p.Engine()); err == nil {
					err = again.Build()
				}
				return err
			})
			near(t, "again "+p.Engine(), d.run(b, again), d.run(b, p), 0)
			b.do(again.Close)
		}
	}
}

// Time is bounded: a question's share, then the whole budget, and at least one candidate is tried
// of each. The clock goes one second with each plan that is built.
func TestBudgetBoundsMeasuring(t *testing.T) {
	b := newBench(t)
	now := time.Unix(0, 0)
	b.h.trace = func(line string) {
		if line == "finalize CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR" {
			now = now.Add(time.Second)
		}
	}
	tuner, logged, noticed := tuning(b, nil)
	tuner.clock, tuner.Budget = func() time.Time { return now }, 8*time.Second
	var tried []int
	for n := range 4 {
		b.choice(tuner, Forward, shape(BFloat16, n+1, 8, 4, 4, 8, 3, 3, 1, 1))
		line := (*logged)[len(*logged)-1]
		var count int
		fmt.Sscanf(line[strings.LastIndex(line, " of ")+4:], "%d", &count)
		tried = append(tried, count)
	}
	if got := fmt.Sprint(tried); got != "[4 4 1 1]" {
		t.Errorf("candidates tried of four questions: got %s, want [4 4 1 1]", got)
	}
	questions, took := tuner.Settle()
	if questions != 4 || took > 12*time.Second {
		t.Errorf("got %d questions in %v, want 4 in at most 12s", questions, took)
	}
	if said := strings.Join(*noticed, "\n"); !strings.Contains(said, "cudnn: measured engines for ") {
		t.Errorf("users are told %q, want how far it is", said)
	}
	if limit, left := tuner.limit(); limit != time.Second || !left {
		t.Errorf("after it was settled: a question may take %v, time is left: %v; want 1s, true", limit, left)
	}
}

// With another number of images what was chosen before comes first, and fewer are tried.
func TestAnotherNumberOfImagesBeginsWithWhatWasChosen(t *testing.T) {
	b := newBench(t)
	tuner, logged, _ := tuning(b, OpenCache(filepath.Join(t.TempDir(), "c"), nil))
	tuner.Most = 3
	for n, want := range []string{"fastest of 3", "fastest of 1"} {
		b.choice(tuner, Forward, shape(BFloat16, n+1, 8, 4, 4, 8, 3, 3, 1, 1))
		if line := (*logged)[len(*logged)-1]; !strings.Contains(line, "eng0 k2=18 k24=3 to bfloat16, 20µs, "+want) {
			t.Errorf("%d images: log is %q, want eng0 k2=18, %s", n+1, line, want)
		}
	}
	for key, want := range map[string]string{"forward convolution of N512 C64 H8 | N1": "forward convolution of N C64 H8 | N1", "of nothing": "of nothing"} {
		if got := anyImages(key); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

// Engines that the library compiles are tried after the others, a few of them, and must be clearly
// faster, since each start compiles them anew.
func TestCompiledEnginesComeLast(t *testing.T) {
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	b := newBench(t, "cudnn_compiled", 1)
	tuner, _, _ := tuning(b, nil)
	if got := b.choice(tuner, Forward, c); got != "eng0 k2=18 k24=3" {
		t.Errorf("hardly faster: got %s, want eng0 k2=18 k24=3", got)
	}
	b.m.Set("cudnn_compiled", 9)
	if got := b.choice(tuner, Forward, c); !strings.HasPrefix(got, "eng47") {
		t.Errorf("clearly faster: got %s, want eng47", got)
	}
	tuner.Most = 1
	if got := b.choice(tuner, Forward, c); !strings.HasPrefix(got, "eng47") {
		t.Errorf("beside one other: got %s, want eng47", got)
	}
	b.h.MaxCompiled = 0
	if got := b.choice(tuner, Forward, c); got != "eng0 k2=17 k24=3" {
		t.Errorf("without compiled ones: got %s, want eng0 k2=17 k24=3", got)
	}
	b.h.MaxCompiled = 2
	compiled := 0
	for _, p := range plans(b, func() ([]*Plan, error) { return b.h.Forward(c) }) {
		if p.Compiled() {
			compiled++
		}
	}
	if compiled != 2 {
		t.Errorf("plans with compiled engines: got %d, want 2", compiled)
	}
}

// A limit on candidates leaves some that write float32 and some that write the images' type.
func TestBothFormsOfAWeightGradientAreTried(t *testing.T) {
	b := newBench(t)
	tuner, logged, _ := tuning(b, nil)
	tuner.Most = 2
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	c.Weight = Float32
	var built []string
	b.h.trace = func(line string) { built = append(built, line) }
	b.choice(tuner, BackwardWeight, c)
	if line := (*logged)[len(*logged)-1]; !strings.Contains(line, "eng0 k2=17 k24=3 to float32") || !strings.Contains(line, "fastest of 2") {
		t.Errorf("got %q, want the same engine in two forms, the first of which is taken", line)
	}
	all := alternate([]int{1, 3, 5, 6}, []int{2, 4})
	if fmt.Sprint(all) != "[1 2 3 4 5 6]" {
		t.Errorf("alternate: got %v", all)
	}
}

// A device without room for a candidate's workspace leaves the candidate out.
func TestNoRoomForWorkspaceLeavesTheCandidateOut(t *testing.T) {
	b := newBench(t)
	tuner, logged, _ := tuning(b, nil)
	b.m.Set("oom_at", 4) // after x, w and y
	if got := b.choice(tuner, Forward, shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)); got != "eng0 k2=18 k24=3" {
		t.Errorf("got %s, want eng0 k2=18 k24=3", got)
	}
	if said := strings.Join(*logged, "\n"); !strings.Contains(said, "eng0 k2=17 k24=3 to bfloat16 is left out") || !strings.Contains(said, "OUT_OF_MEMORY") {
		t.Errorf("log: got %q, want eng0 k2=17 left out for lack of memory", said)
	}
}

// Two processes do not measure at once: the second waits, and takes what the first found out. One
// that waits too long goes on.
func TestOneProcessMeasuresAtATime(t *testing.T) {
	b := newBench(t)
	var logged []string
	cache := OpenCache(filepath.Join(t.TempDir(), "new", "c"), func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) })
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	asked := 0
	b.h.trace = func(line string) {
		if line == "finalize CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR" {
			asked++
		}
	}
	tuner, _, _ := tuning(b, cache)
	other := OpenCache(cache.path, nil)
	unlock := other.lock()
	written := make(chan error, 1)
	go func() {
		err := other.Put(b.h.Key(describe(Forward, shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1))), Choice{Engine: "eng11 to bfloat16"})
		unlock()
		written <- err
	}()
	if got := b.choice(tuner, Forward, c); got != "eng11" || asked != 0 {
		t.Errorf("got %s with %d questions to the heuristics, want eng11 with none", got, asked)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	unlock = other.lock()
	cache.patience = 0
	c.N = 2
	if got := b.choice(tuner, Forward, c); got != "eng0 k2=18 k24=3" || len(logged) != 1 || !strings.Contains(logged[0], "measure while others may") {
		t.Errorf("without patience: got %s, log %q; want eng0 k2=18 and a line", got, logged)
	}
	unlock()
	c.N = 3
	b.choice(tuner, Forward, c)
	if len(logged) != 1 {
		t.Errorf("log: got %q, want nothing new", logged)
	}
}

// However many candidates fail, users are told of a few; the log has the rest.
func TestUsersAreToldOfAFewFaults(t *testing.T) {
	b := newBench(t, "cudnn_bad", 1)
	tuner, logged, noticed := tuning(b, nil)
	for n := range mostFaults + 2 {
		b.choice(tuner, Forward, shape(BFloat16, n+1, 8, 4, 4, 8, 3, 3, 1, 1))
	}
	const wrong = "eng41 to bfloat16 gives wrong numbers"
	if told, wrote := strings.Count(strings.Join(*noticed, "\n"), wrong), strings.Count(strings.Join(*logged, "\n"), wrong); told != mostFaults || wrote != 2 {
		t.Errorf("users are told of %d and the log of %d, want %d and 2", told, wrote, mostFaults)
	}
}

// A device without room for the operands takes the heuristics' first, and says so.
func TestNoRoomToMeasureTakesTheFirst(t *testing.T) {
	b := newBench(t)
	tuner, _, noticed := tuning(b, OpenCache(filepath.Join(t.TempDir(), "c"), nil))
	for n := range 3 {
		b.m.Set("oom_at", int64(n+1))
		if got := b.choice(tuner, Forward, shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)); got != "eng0 k2=17 k24=3" {
			t.Errorf("allocation %d is missing: got %s, want eng0 k2=17 k24=3", n, got)
		}
		if said := (*noticed)[len(*noticed)-1]; !strings.Contains(said, "no engine is measured") || !strings.Contains(said, "OUT_OF_MEMORY") {
			t.Errorf("users are told %q, want that nothing is measured", said)
		}
	}
	if live := b.m.Live(); live["allocations"]+live["hosts"] != 0 {
		t.Errorf("not given back: %v", live)
	}
}

// The host's numbers are those of plain loops, for shapes with all kinds of edges, and the types
// hold the operands as they are.
func TestSamplesEqualPlainLoops(t *testing.T) {
	for _, c := range []Conv{shape(Float32, 2, 5, 6, 7, 3, 3, 3, 1, 1), shape(Float32, 1, 8, 9, 7, 4, 3, 2, 1, 2), shape(Float32, 3, 4, 6, 6, 8, 1, 1, 0, 2)} {
		for _, op := range []Op{Forward, BackwardData, BackwardWeight} {
			for _, accumulate := range []bool{false, true} {
				c.Accumulate = accumulate
				s := newSample(op, c)
				var operands [3][]float32
				for which, n := range s.counts() {
					for i := range n {
						operands[which] = append(operands[which], float32(s.operand(which, i)))
					}
				}
				want := plain(op, c, operands[0], operands[1], operands[2])
				if accumulate {
					for i, before := range operands[s.result()] {
						want[i] += before
					}
				}
				for i, at := range s.at {
					if d := s.want[i] - float64(want[at]); d > 1e-4 || d < -1e-4 {
						t.Errorf("%v %v: element %d: got %g, want %g", op, c, at, s.want[i], want[at])
					}
				}
			}
		}
	}
	s := newSample(Forward, shape(Float32, 1, 8, 64, 64, 8, 1, 1, 0, 1))
	for _, dtype := range []DType{Float32, BFloat16, Float16} {
		for i := range int64(tablePeriod) {
			var bytes [4]byte
			want := float32(s.operand(0, i))
			store(dtype, bytes[:], want)
			if got := load(dtype, bytes[:]); got != want {
				t.Fatalf("%v: %g became %g", dtype, want, got)
			}
			if got := decode(dtype, bytes[:dtype.Size()])[0]; got != want {
				t.Fatalf("%v: %g is stored as %g", dtype, want, got)
			}
		}
	}
}

// Names of engines are read back, and others are errors.
func FuzzParseEngine(f *testing.F) {
	f.Add("eng4 k2=17 k24=3")
	f.Add("eng-1")
	f.Add(" ")
	f.Fuzz(func(t *testing.T, name string) {
		index, knobs, err := parseEngine(name)
		if err != nil {
			return
		}
		again := fmt.Sprintf("eng%d", index)
		for _, k := range knobs {
			again += fmt.Sprintf(" k%d=%d", k[0], k[1])
		}
		i, k, err := parseEngine(again)
		if err != nil || i != index || fmt.Sprint(k) != fmt.Sprint(knobs) {
			t.Errorf("%q: got %d %v, again %d %v, %v", name, index, knobs, i, k, err)
		}
	})
}
