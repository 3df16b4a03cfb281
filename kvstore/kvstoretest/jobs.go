package kvstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A jobSuite runs what takes several jobs, or ends one.
type jobSuite struct {
	h       Harness
	kind    string
	workers int
	servers []int
	// file is what a job has saved, with the values in want; nil: none has yet.
	file string
	want [][]float32
}

// runJobs runs a jobSuite.
func runJobs(t *testing.T, h Harness, kind string, workers int) {
	servers := h.Servers
	if len(servers) == 0 {
		servers = []int{0, 0}
	}
	s := &jobSuite{h: h, kind: kind, workers: workers, servers: servers, file: filepath.Join(t.TempDir(), "state.safetensors")}
	t.Run("a loaded job goes on as if it had never ended", s.loadedJob)
	t.Run("a refused load changes nothing", func(t *testing.T) {
		s.save(t)
		run(t, s.open(t, servers[len(servers)-1]), refusedLoads(t.TempDir(), s.file))
	})
	t.Run("a failed save leaves nothing behind", func(t *testing.T) {
		run(t, s.open(t, servers[0]), failedSaves(t.TempDir()))
	})
	t.Run("a broadcast gives everyone what rank 0 makes", func(t *testing.T) {
		run(t, s.open(t, servers[0]), broadcasts)
	})
	t.Run("a closed store returns ErrClosed", s.closedStores)
	t.Run("a call ends with its context", func(t *testing.T) {
		run(t, s.open(t, servers[0]), endedContexts)
	})
}

// open opens a job's stores.
func (s *jobSuite) open(t testing.TB, servers int) []kvstore.Store {
	return s.h.Open(t, Config{Type: s.kind, Workers: s.workers, Servers: servers, Options: []kvstore.Option{kvstore.WithTimeout(Timeout)}})
}

// save runs a job that saves the file, once.
func (s *jobSuite) save(t *testing.T) {
	if s.want == nil {
		s.want = run(t, s.open(t, s.servers[0]), trainAndSave(s.file))
	}
}

func (s *jobSuite) loadedJob(t *testing.T) {
	s.save(t)
	for i, n := range s.servers {
		got := run(t, s.open(t, n), loadAndTrain((&url.URL{Scheme: "file", Path: s.file}).String(), i%2 == 0))
		for r := range got {
			if diff := difference(got[r], s.want[0]); diff != "" {
				t.Errorf("rank %d of a job with %d servers: %s", r, n, diff)
			}
		}
	}
}

func failedSaves(dir string) func(w *Worker) []float32 {
	return func(w *Worker) []float32 {
		w.init(w.key("x"), fill(3, 1))
		if w.r > 0 {
			return nil
		}
		if err := w.Store.Save(w.Ctx, filepath.Join(dir, "none", "x.safetensors")); !errors.Is(err, os.ErrNotExist) {
			w.failf("save into a folder that is not there: got error %v", err)
		}
		w.is("save to the web", w.Store.Save(w.Ctx, "https://example.org/x"), kvstore.ErrUnsupported)
		if _, err := os.Stat("/dev/full"); err == nil {
			if err := w.Store.Save(w.Ctx, dir); err == nil {
				w.failf("save over a folder: got no error")
			}
		}
		left, err := os.ReadDir(dir)
		w.ok(err)
		if len(left) != 0 {
			w.failf("after saves that failed: got %v left behind", left)
		}
		return nil
	}
}

// broadcasts tells values of all lengths. A value that cannot be told is an error of its worker alone.
func broadcasts(w *Worker) []float32 {
	long := strings.Repeat("ü", kvstore.MaxBroadcast/2)
	for _, value := range []string{"first", "", long} {
		got, err := w.Store.Broadcast(w.Ctx, func() (string, error) {
			if w.r > 0 {
				w.failf("broadcast: rank %d is asked for the value, want rank 0 alone", w.r)
			}
			return value, nil
		})
		if w.ok(err); got != value {
			w.failf("broadcast: got %.9q (%d bytes), want %.9q (%d)", got, len(got), value, len(value))
		}
	}
	if w.r > 0 {
		return nil
	}
	for bad, want := range map[string]string{long + "x": "got 524289 bytes, want at most 524288", "\xff": "got 1 bytes that are not UTF-8"} {
		if got, err := w.Store.Broadcast(w.Ctx, func() (string, error) { return bad, nil }); err == nil || !strings.Contains(err.Error(), want) {
			w.failf("broadcast of %d bytes, %.5q: got %.9q and error %v", len(bad), bad, got, err)
		}
	}
	return nil
}

func (s *jobSuite) closedStores(t *testing.T) {
	stores := s.open(t, s.servers[0])
	key := "x"
	run(t, stores, func(w *Worker) []float32 { w.init(key, fill(2, 1)); return nil })
	for i, kv := range stores {
		if err := kv.Close(); err != nil {
			t.Errorf("close rank %d: %v", i, err)
		}
		if err := kv.Close(); err != nil {
			t.Errorf("close rank %d again: %v", i, err)
		}
		ctx := context.Background()
		_, broadcast := kv.Broadcast(ctx, func() (string, error) { return "", nil })
		for what, err := range map[string]error{
			"push": kv.Push(ctx, key, fill(2, 1)), "pull": kv.Pull(ctx, key, fill(2, 1)), "init": kv.Init(ctx, "y", fill(2, 1)),
			"barrier": kv.Barrier(ctx), "broadcast": broadcast, "set optimizer": kv.SetOptimizer(ctx, doubling), "load": kv.Load(ctx, "x"),
		} {
			if !errors.Is(err, kvstore.ErrClosed) {
				t.Errorf("%s on a closed store: got error %v, want %v", what, err, kvstore.ErrClosed)
			}
		}
	}
}

// endedContexts makes calls whose context has ended: nothing of them counts.
func endedContexts(w *Worker) []float32 {
	w.init("x", fill(2, 1))
	ctx, cancel := context.WithCancel(w.Ctx)
	cancel()
	w.is("push", w.Store.Push(ctx, "x", fill(2, 1)), context.Canceled)
	w.is("pull", w.Store.Pull(ctx, "x", fill(2, 1)), context.Canceled)
	w.pushPull("x", [][]float32{fill(2, 1)}, [][]float32{make([]float32, 2)})
	w.all("x", w.pulled("x", 2), float32(w.n))
	return nil
}

// run runs a program on all workers of a job, closes their stores and returns what each gave back.
func run(t *testing.T, stores []kvstore.Store, program func(w *Worker) []float32) [][]float32 {
	t.Helper()
	results := make([][]float32, len(stores))
	Together(t, stores, Case{Name: "job", Run: func(w *Worker) { results[w.r] = program(w) }})
	return results
}

var trained = optim.Config{Name: "adam", LearningRate: 0.01, WeightDecay: 0.001, Reduction: optim.Mean}

const (
	saveAt = 3
	steps  = 6

	// bigTrained is a number of values for which a key is cut over the servers.
	bigTrained = 70_000
)

// The keys of a small training, whose gradients follow from step and rank.
func initTraining(w *Worker, value float32) {
	w.init("dense", fill(4321, value))
	w.init("big", fill(bigTrained, value))
	w.ok(w.Store.InitRows(w.Ctx, "rows", 11, 3, fill(33, value)))
	w.ok(w.Store.InitAverage(w.Ctx, "average", fill(5, value)))
	normal := kvstore.Initializer{Name: "normal", Mean: 1, Deviation: 0.1, Seed: 3}
	w.ok(w.Store.InitTable(w.Ctx, "words", kvstore.Table{RowLen: 3, Initializer: normal, MaxRows: 1000}))
	w.ok(w.Store.InitTable(w.Ctx, "table", kvstore.Table{Rows: 11, RowLen: 3, Initializer: normal}))
	w.ok(w.Store.InitTable(w.Ctx, "no words", kvstore.Table{RowLen: 1}))
}

func train(w *Worker, from, to int) {
	for step := from; step < to; step++ {
		random := rand.New(rand.NewPCG(uint64(step), uint64(w.r)))
		w.push("dense", uniform(random, 4321, -1, 1))
		out := make([]float32, bigTrained)
		w.pushPull("big", [][]float32{uniform(random, bigTrained, -1, 1)}, [][]float32{out})
		w.pushRows("rows", []int64{int64(step), 9, int64(w.r % 11)}, uniform(random, 9, -1, 1))
		w.push("average", uniform(random, 5, -1, 1))
		w.pushRows("words", []int64{int64(step) - 2, 9, int64(w.r%11) << 50}, uniform(random, 9, -1, 1))
		w.pushRows("table", []int64{int64(step), 9, int64(w.r % 11)}, uniform(random, 9, -1, 1))
	}
}

func values(w *Worker) []float32 {
	all := append(w.pulled("dense", 4321), w.pulled("big", bigTrained)...)
	for _, key := range []string{"rows", "words", "table"} {
		rows := make([]float32, 33)
		ids := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
		if key == "words" {
			ids = []int64{0, 1, -1, -2, 4, 5 << 50, 6 << 50, 1 << 50, 2 << 50, 9, 10}
		}
		w.pullRows(key, ids, rows)
		all = append(all, rows...)
	}
	return append(all, w.pulled("average", 5)...)
}

func trainAndSave(file string) func(w *Worker) []float32 {
	return func(w *Worker) []float32 {
		w.ok(w.Store.SetOptimizer(w.Ctx, trained))
		initTraining(w, 0.5)
		if w.r == 0 {
			w.ok(w.Store.SetLearningRate(w.Ctx, 2, 0.02))
			w.ok(w.Store.SetLearningRate(w.Ctx, 5, 0.005))
		}
		w.barrier()
		train(w, 0, saveAt)
		// Any worker may save, while the others go on.
		if w.r == w.n-1 {
			w.ok(w.Store.Save(w.Ctx, file))
		}
		train(w, saveAt, steps)
		return values(w)
	}
}

func loadAndTrain(uri string, initFirst bool) func(w *Worker) []float32 {
	return func(w *Worker) []float32 {
		if initFirst {
			w.ok(w.Store.SetOptimizer(w.Ctx, trained))
			initTraining(w, -1)
		}
		w.ok(w.Store.Load(w.Ctx, uri))
		// The loaded values stay.
		initTraining(w, -2)
		w.is("init a second time", w.Store.Init(w.Ctx, "dense", fill(4321, 0)), kvstore.ErrDuplicateInit)
		if !initFirst {
			w.ok(w.Store.SetOptimizer(w.Ctx, trained))
		}
		w.barrier()
		train(w, saveAt, steps)
		return values(w)
	}
}

// difference returns where two results differ first, or nothing.
func difference(got, want []float32) string {
	if len(got) != len(want) {
		return fmt.Sprintf("got %d values, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("value %d: got %v, want %v", i, got[i], want[i])
		}
	}
	return ""
}

func refusedLoads(dir, good string) func(w *Worker) []float32 {
	return func(w *Worker) []float32 {
		damaged := func(name string, change func(b []byte) []byte) string {
			path := filepath.Join(dir, name)
			if w.r == 0 {
				b, err := os.ReadFile(good)
				w.ok(err)
				w.ok(os.WriteFile(path, change(b), 0o600))
			}
			w.barrier()
			return path
		}
		w.init("dense", fill(4321, 8))
		before := w.pulled("dense", 4321)
		load := func(what, path, text string) {
			err := w.Store.Load(w.Ctx, path)
			if err == nil || w.r == 0 && !strings.Contains(err.Error(), text) {
				w.failf("load of %s: got error %v, want one with %q", what, err, text)
			}
		}
		load("no file", filepath.Join(dir, "none"), "no such file")
		const text = "damaged file"
		load("half a file", damaged("half", func(b []byte) []byte { return b[:len(b)/2] }), text)
		load("an empty file", damaged("empty", func(b []byte) []byte { return nil }), text)
		load("another format", damaged("text", func(b []byte) []byte { return []byte(strings.Repeat("text ", 100)) }), text)
		load("another header", damaged("header", func(b []byte) []byte { b[9] = '!'; return b }), text)
		// The damage is all over the file.
		for i := range 5 {
			name := fmt.Sprintf("bit%d", i)
			load(name, damaged(name, func(b []byte) []byte { b[i*(len(b)-1)/4] ^= 1 << i; return b }), text)
		}
		load("a file that has lost its checksums", damaged("bare", func(b []byte) []byte {
			return bytes.Replace(b, []byte("paragon.crc32c"), []byte("paragon.nothing")[:14], 1)
		}), text)
		w.init("more", fill(2, 1))
		err := w.Store.Load(w.Ctx, good)
		if w.r == 0 {
			w.is("load of a file without a key that is here", err, kvstore.ErrUnknownKey)
		} else if err == nil {
			w.failf("load of a file without a key that is here: got no error")
		}
		w.same("dense after loads that failed", w.pulled("dense", 4321), before)
		w.is("init again after loads that failed", w.Store.Init(w.Ctx, "dense", before), kvstore.ErrDuplicateInit)
		return nil
	}
}
