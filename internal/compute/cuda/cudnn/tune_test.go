package cudnn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The fake library's engines take fixed times on the fake driver's clock, so the fastest is known.
func TestTuneTakesTheFastest(t *testing.T) {
	b := newBench(t)
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	d := newPass(b, rand.New(rand.NewPCG(1, 2)), Forward, c)
	all := plans(b, func() ([]*Plan, error) { return b.h.Forward(c) })
	workspace := b.room(1 << 16)
	run := func(p *Plan) error { return p.Run(b.s, workspace, d.p[0], d.p[1], d.p[2]) }
	b.do(func() error {
		best, timings, err := Tune(b.ctx, b.s, all, run, 3)
		if err != nil {
			return err
		}
		var got []string
		for _, x := range timings {
			got = append(got, fmt.Sprint(x.Engine, " ", x.Time))
		}
		want := "eng0 k2=17 k24=3 30µs, eng0 k2=18 k24=3 20µs, eng1 25µs, eng11 50µs, legacy algo 1 35µs"
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("timings: got %s, want %s", s, want)
		}
		if best != all[1] {
			t.Errorf("the fastest: got %s, want %s", best.Engine(), all[1].Engine())
		}
		if best, timings, err = Tune(b.ctx, b.s, all, run, 0); err != nil || best != all[0] || len(timings) != 1 || timings[0].Time != 0 {
			t.Errorf("repeat 0: got %s, %v, %v, want the first and no time", best.Engine(), timings, err)
		}
		// One that does not run after all is passed over; all of them, or a fault, are
		// errors.
		refuse := fmt.Errorf("a test: %w", ErrNotSupported)
		best, timings, err = Tune(b.ctx, b.s, all, func(p *Plan) error {
			if p == all[1] {
				return refuse
			}
			return run(p)
		}, 1)
		if err != nil || best != all[2] || !errors.Is(timings[1].Err, refuse) {
			t.Errorf("without %s: got %s, %v, %v", all[1].Engine(), best.Engine(), timings, err)
		}
		if _, _, err = Tune(b.ctx, b.s, all, func(*Plan) error { return refuse }, 1); !errors.Is(err, ErrNotSupported) {
			t.Errorf("none runs: got error %v, want ErrNotSupported", err)
		}
		broken := &Error{Call: "cudnnBackendExecute", Status: 5000}
		best, timings, err = Tune(b.ctx, b.s, all, func(p *Plan) error {
			if p == all[1] {
				return broken
			}
			return run(p)
		}, 1)
		if err != nil || best != all[2] || !errors.Is(timings[1].Err, broken) {
			t.Errorf("with a broken %s: got %s, %v, %v", all[1].Engine(), best.Engine(), timings, err)
		}
		if _, _, err = Tune(b.ctx, b.s, all, func(*Plan) error { return broken }, 1); errors.Is(err, ErrNotSupported) || !errors.Is(err, broken) {
			t.Errorf("all broken: got error %v, want that of the library", err)
		}
		fault := errors.New("a fault")
		if _, _, err = Tune(b.ctx, b.s, all, func(*Plan) error { return fault }, 1); !errors.Is(err, fault) {
			t.Errorf("a fault: got error %v", err)
		}
		if _, _, err = Tune(b.ctx, b.s, all, run, -1); err == nil {
			t.Error("repeat -1: got no error")
		}
		return nil
	})
	if live := b.m.Live(); live["events"] != 0 {
		t.Errorf("%d events were not destroyed", live["events"])
	}
}

// A choice is remembered in the file: the next start builds that engine alone, and another device,
// library or question chooses anew.
func TestTunerRemembers(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "new", "choices.json")
	var logged []string
	logf := func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }
	tuner := &Tuner{Handle: b.h, Cache: OpenCache(path, logf), Stream: b.s, Repeat: 2, Log: logf}
	built := 0
	b.h.trace = func(line string) {
		if line == "finalize CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR" {
			built++
		}
	}
	choose := func(c Conv) string {
		t.Helper()
		var engine string
		b.do(func() error {
			p, err := tuner.Conv(BackwardWeight, c)
			if err != nil {
				return err
			}
			engine = fmt.Sprintf("%s to %v", p.Engine(), p.Conv().Weight)
			return p.Close()
		})
		return engine
	}
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	want := "eng0 k2=18 k24=3 to bfloat16"
	if got := choose(c); got != want {
		t.Errorf("first choice: got %s, want %s", got, want)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "eng0 k2=18 k24=3 to bfloat16, 20µs, fastest of 5") {
		t.Errorf("log: got %q", logged)
	}
	many := built

	// The next process does so, too.
	tuner.Cache = OpenCache(path, logf)
	if got := choose(c); got != want || built != many+1 {
		t.Errorf("second choice: got %s with %d engines built, want %s with 1", got, built-many, want)
	}
	c.NonDeterministic = true
	if got := choose(c); got != "eng5 to bfloat16" {
		t.Errorf("nondeterministic: got %s, want eng5", got)
	}
	c.NonDeterministic, c.Weight, tuner.Any = false, Float32, true
	b.m.Set("cudnn_wgrad_float32", 0)
	if got := choose(c); got != want {
		t.Errorf("float32 that the library does not write: got %s, want %s", got, want)
	}
	tuner.Repeat, tuner.Cache, c.Weight, built = 0, nil, BFloat16, 0
	if got := choose(c); got != "eng0 k2=17 k24=3 to bfloat16" || built != 1 {
		t.Errorf("without measurement: got %s with %d engines built, want the first with 1", got, built)
	}
	keys := OpenCache(path, logf).choices
	if len(keys) != 3 {
		t.Errorf("the file has %d choices, want 3: %v", len(keys), keys)
	}
	for key := range keys {
		for _, part := range []string{"backward weight convolution of N1 C8 H4 W4 with K8 R3 S3", b.ctx.Info().Name, "cudnn 9.19.0", "choices 2"} {
			if !strings.Contains(key, part) {
				t.Errorf("key %q has no %q", key, part)
			}
		}
	}
	if live := b.m.Live(); live["allocations"] != 0 {
		t.Errorf("%d allocations were not freed", live["allocations"])
	}
}

// With a limit only so many are built, and the choice is among them.
func TestTunerBuildsNoMoreThanItIsAllowed(t *testing.T) {
	b := newBench(t)
	var logged []string
	tuner := &Tuner{Handle: b.h, Stream: b.s, Repeat: 1, Most: 1, Log: func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }}
	b.do(func() error {
		p, err := tuner.Conv(Forward, shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1))
		if err != nil {
			return err
		}
		if p.Engine() != "eng0 k2=17 k24=3" || len(logged) != 1 || !strings.Contains(logged[0], "fastest of 1") {
			t.Errorf("got %s, log %q, want the first, fastest of 1", p.Engine(), logged)
		}
		return p.Close()
	})
}

// Choices are kept in the user's folder of caches, and somewhere even without a home.
func TestDefaultCachePath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	for _, home := range []string{filepath.Join(dir, "home"), ""} {
		t.Setenv("HOME", home)
		t.Setenv("XDG_CACHE_HOME", home)
		want := home
		if home == "" {
			want = filepath.Join(dir, "tmp")
		}
		if got := DefaultCachePath(); !strings.HasPrefix(got, want+"/") || filepath.Base(got) != "cudnn-choices.json" {
			t.Errorf("home %q: got %s, want cudnn-choices.json below %s", home, got, want)
		}
	}
}

// What was chosen but is no longer there is chosen anew, with a word about it.
func TestTunerChoosesAnewWhatNoLongerBuilds(t *testing.T) {
	b := newBench(t)
	var logged []string
	logf := func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }
	path := filepath.Join(t.TempDir(), "choices.json")
	cache := OpenCache(path, logf)
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	for _, engine := range []string{"eng7 to bfloat16", "eng99 to bfloat16", "eng0 to float32", "eng0", "eng", "", "legacy algo 0 to bfloat16", "legacy algo x to bfloat16", "eng0 k2 to bfloat16"} {
		if err := cache.Put(b.h.Key(describe(Forward, c)), Choice{Engine: engine}); err != nil {
			t.Fatal(err)
		}
		logged = nil
		tuner := &Tuner{Handle: b.h, Cache: cache, Stream: b.s, Repeat: 1, Notice: logf}
		b.do(func() error {
			p, err := tuner.Conv(Forward, c)
			if err != nil {
				return err
			}
			if p.Engine() != "eng0 k2=18 k24=3" {
				t.Errorf("after %s: got %s", engine, p.Engine())
			}
			return p.Close()
		})
		if !strings.Contains(strings.Join(logged, "\n"), engine+", no longer builds") {
			t.Errorf("after %s: log is %q", engine, logged)
		}
	}
}

// The tuner chooses normalisations and their gradients too.
func TestTunerChoosesNormalisations(t *testing.T) {
	b := newBench(t)
	tuner := &Tuner{Handle: b.h, Cache: OpenCache(filepath.Join(t.TempDir(), "c.json"), nil), Stream: b.s, Repeat: 1}
	for range 2 {
		b.do(func() error {
			p, err := tuner.Norm(Norm{N: 2, C: 8, H: 4, W: 4, Type: BFloat16, Add: true, ReLU: true, Mask: true, Running: true, Epsilon: 1e-5, Momentum: 0.1})
			if err != nil {
				return err
			}
			g, err := tuner.NormGrad(NormGrad{N: 2, C: 8, H: 4, W: 4, Type: BFloat16, Mask: true, DAdd: true})
			if err != nil {
				return err
			}
			if p.Engine() != "eng20 k2=4" || g.Engine() != "eng30" {
				t.Errorf("got %s and %s, want eng20 k2=4 and eng30", p.Engine(), g.Engine())
			}
			return errors.Join(p.Close(), g.Close())
		})
	}
}

// A broken file is as good as none, and is said; what two processes write is kept of both.
func TestCacheFiles(t *testing.T) {
	dir := t.TempDir()
	var logged []string
	logf := func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }
	for i, text := range []string{"", "{", `{"key": 3}`, `{"key": {"engine": ""}}`, `[]`, "\x00\xff"} {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		logged = nil
		c := OpenCache(path, logf)
		if len(logged) != 1 || !strings.Contains(logged[0], path) {
			t.Errorf("%q: log is %q, want one line with the path", text, logged)
		}
		if _, ok := c.Get("key"); ok {
			t.Errorf("%q has a choice", text)
		}
		if err := c.Put("other", Choice{Engine: "eng1", Nanoseconds: 5}); err != nil {
			t.Errorf("%q: Put: %v", text, err)
		}
		if got, ok := OpenCache(path, logf).Get("other"); !ok || got.Engine != "eng1" {
			t.Errorf("%q: after Put: got %v, %v", text, got, ok)
		}
	}
	path := filepath.Join(dir, "shared")
	a, b := OpenCache(path, nil), OpenCache(path, nil)
	for _, put := range []struct {
		c   *Cache
		key string
	}{{a, "a"}, {b, "b"}, {a, "c"}} {
		if err := put.c.Put(put.key, Choice{Engine: "eng"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(OpenCache(path, nil).choices); got != 3 {
		t.Errorf("two writers: the file has %d choices, want 3", got)
	}
	if _, ok := b.Get("c"); !ok {
		t.Error("what another process wrote is not found")
	}
	var none *Cache
	if _, ok := none.Get("a"); ok || none.Put("a", Choice{}) != nil {
		t.Error("a nil cache knows something")
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := OpenCache(filepath.Join(dir, "file", "choices"), nil).Put("a", Choice{Engine: "e"}); err == nil {
		t.Error("Put below a file: got no error")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// Whatever is in the file, reading it gives choices with engines or an error.
func FuzzParseChoices(f *testing.F) {
	f.Add([]byte(`{"a": {"engine": "eng0", "nanoseconds": 5, "candidates": 2}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		choices, err := parseChoices("file", text)
		if err != nil {
			return
		}
		for key, c := range choices {
			if c.Engine == "" {
				t.Errorf("%q has no engine", key)
			}
		}
	})
}
