package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// pythonWith returns a Python that has these modules. Without one the test is skipped, or fails
// with PARAGON_TEST_REQUIRE=all.
func pythonWith(t *testing.T, modules string) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import "+modules).Run() == nil {
			return python
		}
	}
	why := "there is no Python with " + modules + " (Debian: python3-numpy python3-torch)"
	if os.Getenv("PARAGON_TEST_REQUIRE") == "all" {
		t.Fatal("PARAGON_TEST_REQUIRE=all, and " + why)
	}
	t.Skip(why)
	return ""
}

// runWorkers runs a script of testdata as every worker of a job, to the end. Its bridge is the
// test's binary.
func runWorkers(t *testing.T, job *jobtest.Job, workers int, python, script string, args func(rank int) []string) {
	t.Helper()
	pkg, err := filepath.Abs("../../../python")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for rank := range workers {
		cmd := exec.CommandContext(ctx, python, append([]string{"-B", filepath.Join("testdata", script)}, args(rank)...)...)
		cmd.Env = append(environment(t, job), fmt.Sprint("PARAGON_RANK=", rank), "PYTHONPATH="+pkg, "PARAGON_LAUNCH="+os.Args[0], processVariable+"=launch",
			"OMP_NUM_THREADS=1")
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("worker %d: %v\n%s", rank, err, out)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// A valuesJob is what both Go's workers and Python's do, with the same gradients.
type valuesJob struct {
	Sizes     []int         `json:"sizes"`
	Steps     int           `json:"steps"`
	Kinds     []string      `json:"kinds"`
	Optimizer *optim.Config `json:"optimizer"`
	// Rate is of torch's optimizer, which paragon.torch gives to the servers as a factor.
	Rate float64 `json:"rate"`

	first []float32
	// gradients are by rank and step, all keys' one after the other; weights by rank and step.
	gradients [][][]float32
	weights   [][]float32
}

// draw makes the numbers of a job: gradients of all sizes that do not overflow when they are summed
// and squared, zeros of both signs and subnormal ones among them.
func (v *valuesJob) draw(workers int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, uint64(workers)))
	total := 0
	for _, n := range v.Sizes {
		total += n
	}
	number := func() float32 {
		switch random.IntN(50) {
		case 0:
			return float32(math.Copysign(0, random.Float64()-0.5))
		case 1:
			return math.Float32frombits(random.Uint32() & 0x807fffff)
		}
		return float32(random.NormFloat64() * math.Exp2(float64(random.IntN(40)-25)))
	}
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = number()
		}
		return x
	}
	v.first = fill(total)
	for range workers {
		var gradients [][]float32
		var weights []float32
		for range v.Steps {
			gradients = append(gradients, fill(total))
			weights = append(weights, float32(math.Exp2(random.Float64()*8-2)))
		}
		v.gradients, v.weights = append(v.gradients, gradients), append(v.weights, weights)
	}
}

// write makes the files that values.py reads.
func (v *valuesJob) write(t *testing.T, folder string) {
	t.Helper()
	write := func(name string, x []float32) {
		if err := os.WriteFile(filepath.Join(folder, name), bytesOf(x), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first", v.first)
	for rank, gradients := range v.gradients {
		write(fmt.Sprint("gradients", rank), slices.Concat(gradients...))
		write(fmt.Sprint("weights", rank), v.weights[rank])
	}
}

// keys calls f for each key with its part of all keys' values.
func (v *valuesJob) keys(kind string, x []float32, f func(key string, x []float32) error) error {
	at := 0
	for i, n := range v.Sizes {
		if err := f(fmt.Sprint(kind, "/", i), x[at:at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// goWorker does the job as a worker in Go, and returns the bytes of all values.
func (v *valuesJob) goWorker(ctx context.Context, kv kvstore.Store, rank int) ([]byte, error) {
	if v.Optimizer != nil {
		if err := kv.SetOptimizer(ctx, *v.Optimizer); err != nil {
			return nil, err
		}
	}
	for _, kind := range v.Kinds {
		first := func(key string, x []float32) error { return kv.InitAverage(ctx, key, x) }
		if kind == "dense" || kind == "server" {
			first = func(key string, x []float32) error { return kv.Init(ctx, key, x) }
		}
		if err := v.keys(kind, v.first, first); err != nil {
			return nil, err
		}
	}
	var out []byte
	zero := float32(0)
	for step, gradients := range v.gradients[rank] {
		for _, kind := range v.Kinds {
			weight := v.weights[rank][step]
			pusher := kv.Weighted(weight, false)
			if kind == "server" {
				pusher = kv.Step(kvstore.PushOptions{Weight: weight, Factor: func(string) float64 { return v.Rate }})
			}
			err := v.keys(kind, gradients, func(key string, x []float32) error {
				x = slices.Clone(x)
				for i := range x {
					if step%2 == 1 && (kind == "local" || kind == "server") {
						// There PyTorch adds to zeros, which makes −0 a 0.
						x[i] += zero
					}
					x[i] *= weight
				}
				err := pusher.PushPull(ctx, key, [][]float32{x}, [][]float32{x})
				out = append(out, bytesOf(x)...)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Python's workers get the values that Go's get for the same gradients, weights and optimizers, bit
// for bit, whichever way they go: paragon.kv, the store's plans, attach in both modes.
func TestPythonsValuesAreGos(t *testing.T) {
	adam := &optim.Config{Name: "adam", LearningRate: 0.01, Beta1: 0.8, Beta2: 0.95, Reduction: "mean", WeightDecay: 0.01}
	for _, test := range []struct {
		name, modules string
		job           valuesJob
	}{
		{"sum and mean", "numpy", valuesJob{Kinds: []string{"dense", "average"}}},
		{"sgd", "numpy", valuesJob{Kinds: []string{"dense"}, Optimizer: &optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9, WeightDecay: 0.001}}},
		{"adam", "numpy", valuesJob{Kinds: []string{"dense", "average"}, Optimizer: adam}},
		{"torch", "numpy, torch", valuesJob{Kinds: []string{"local", "server"}, Rate: 0.003,
			Optimizer: &optim.Config{Name: "adam", LearningRate: 1, Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-8, Reduction: "mean"}}},
	} {
		python := pythonWith(t, test.modules)
		for _, workers := range []int{1, 2, 3} {
			t.Run(fmt.Sprint(test.name, "/", workers), func(t *testing.T) {
				v := test.job
				// One value, few, as many as are sent together, and more than one shard.
				v.Sizes, v.Steps = []int{1, 7, 4096, 70001}, 6
				v.draw(workers, 1)
				comparePython(t, &v, workers, python)
			})
		}
	}
}

// comparePython does a job in Go and in Python.
func comparePython(t *testing.T, v *valuesJob, workers int, python string) {
	config := jobtest.Config{Workers: workers, Servers: 2, TCP: true, Secret: []byte("0123456789abcdef0123456789abcdef")}
	stores := jobtest.New(t, config).Stores(t, "dist_sync")
	want, errs := make([][]byte, workers), make([]error, workers)
	var all sync.WaitGroup
	for rank, kv := range stores {
		all.Go(func() { want[rank], errs[rank] = v.goWorker(t.Context(), kv, rank) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}

	folder := t.TempDir()
	v.write(t, folder)
	told, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	runWorkers(t, jobtest.New(t, config), workers, python, "values.py", func(rank int) []string {
		return []string{folder, fmt.Sprint(rank), string(told)}
	})
	for rank := range workers {
		got, err := os.ReadFile(filepath.Join(folder, fmt.Sprint("python", rank)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want[rank]) {
			t.Errorf("worker %d: %s", rank, v.firstDifference(got, want[rank]))
		}
	}
}

// firstDifference says where values differ first.
func (v *valuesJob) firstDifference(got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("Python got %d bytes, want %d", len(got), len(want))
	}
	for i := 0; i < len(got); i += 4 {
		if bytes.Equal(got[i:i+4], want[i:i+4]) {
			continue
		}
		at, step := i/4, 0
		for {
			for _, kind := range v.Kinds {
				for k, n := range v.Sizes {
					if at < n {
						return fmt.Sprintf("value %d of key %s/%d in step %d: Python has the bits %x, Go %x", at, kind, k, step, got[i:i+4], want[i:i+4])
					}
					at -= n
				}
			}
			step++
		}
	}
	return "the values are the same"
}

// A job of Go's workers goes on from the file that Python's have saved in server mode: weights and
// the optimizer's state, by names that agree. It gets the bits that Python's get that went on.
func TestAGoWorkerGoesOnFromPythonsServers(t *testing.T) {
	python := pythonWith(t, "numpy, torch")
	for _, optimizer := range []optim.Config{
		{Name: "sgd", LearningRate: 0.05, Momentum: 0.9, Velocity: optim.Gradients, WeightDecay: 0.01, Reduction: "mean"},
		{Name: "adam", LearningRate: 0.02, Beta1: 0.8, Beta2: 0.9, Reduction: "mean"},
	} {
		t.Run(optimizer.Name, func(t *testing.T) {
			const workers, saved = 2, 5
			v := &valuesJob{Sizes: []int{100 * 60, 100, 7 * 100, 7}, Steps: 8}
			v.draw(workers, 2)
			folder := t.TempDir()
			v.write(t, folder)
			config := jobtest.Config{Workers: workers, Servers: 2, TCP: true, Secret: []byte("0123456789abcdef0123456789abcdef")}
			runWorkers(t, jobtest.New(t, config), workers, python, "serverstate.py", func(rank int) []string {
				return []string{folder, fmt.Sprint(rank), optimizer.Name}
			})

			stores := jobtest.New(t, config).Stores(t, "dist_sync")
			got, errs := make([][]float32, workers), make([]error, workers)
			var all sync.WaitGroup
			for rank, kv := range stores {
				all.Go(func() {
					file := filepath.Join(folder, "store.safetensors")
					got[rank], errs[rank] = goOn(t.Context(), kv, file, optimizer, v.gradients[rank][saved:])
				})
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for rank := range workers {
				want, err := os.ReadFile(filepath.Join(folder, fmt.Sprint("python", rank)))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(bytesOf(got[rank]), want) {
					t.Errorf("worker %d: the weights differ from those of Python's worker that went on", rank)
				}
			}
		})
	}
}

// goOn is a Go worker with the parameters of serverstate.py, which begins with its file.
func goOn(ctx context.Context, kv kvstore.Store, file string, optimizer optim.Config, gradients [][]float32) ([]float32, error) {
	if err := kv.SetOptimizer(ctx, optimizer); err != nil {
		return nil, err
	}
	names, sizes := []string{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}, []int{100 * 60, 100, 7 * 100, 7}
	for i, name := range names {
		if err := kv.Init(ctx, name, make([]float32, sizes[i])); err != nil {
			return nil, err
		}
	}
	if err := kv.Load(ctx, file); err != nil {
		return nil, err
	}
	var last []float32
	for _, all := range gradients {
		last = last[:0]
		for i, name := range names {
			x := slices.Clone(all[:sizes[i]])
			all = all[sizes[i]:]
			if err := kv.PushPull(ctx, name, [][]float32{x}, [][]float32{x}); err != nil {
				return nil, err
			}
			last = append(last, x...)
		}
	}
	return last, nil
}
