package kvstore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// normsVariable has the parameters of measureQuadratic, as fmt prints them.
const normsVariable = "PARAGON_TEST_NORMS"

// A quadratic is ½‖w − c‖², whose gradient at w is known for every example but for noise of known
// size.
const (
	quadraticSize  = 200
	quadraticNoise = 0.5 // standard deviation of one example's gradient, in each direction
	initialBatch   = 32
)

// measureQuadratic trains a quadratic model for some steps, each worker with micro-batches of its
// own size, and prints what the servers' norms say about ‖G‖² and tr(Cov)/M0: the means of the
// unbiased estimates over all measured steps, beside the truth.
func measureQuadratic(ctx context.Context, kv kvstore.Store, program string) error {
	var steps, micro int
	if _, err := fmt.Sscanf(program, "%d %d", &steps, &micro); err != nil {
		return err
	}
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 1e-4, Reduction: optim.Mean}); err != nil {
		return err
	}
	keys := []string{"a", "b"} // one on each server
	values, grads := make([][]float32, len(keys)), make([][]float32, len(keys))
	for i, key := range keys {
		values[i], grads[i] = make([]float32, quadraticSize/2), make([]float32, quadraticSize/2)
		for j := range values[i] {
			values[i][j] = float32(0.2 * math.Sin(float64(i+2*j))) // the minimum is at 0; ‖G‖² is 4 at first
		}
		if err := kv.Init(ctx, key, values[i]); err != nil {
			return err
		}
	}
	random := rand.New(rand.NewPCG(uint64(kv.Rank()), uint64(micro)))
	m := float64(32 + 16*kv.Rank()) // examples of a micro-batch
	measured, truth, sqr, noise := 0, 0.0, 0.0, 0.0
	for step := range steps {
		now, sums := 0.0, make([]float64, len(keys))
		for i := range keys {
			for j := range grads[i] {
				grads[i][j] = 0
			}
		}
		for range micro {
			for i := range keys {
				for j, w := range values[i] {
					s := m*float64(w) + math.Sqrt(m)*quadraticNoise*random.NormFloat64()
					grads[i][j] += float32(s)
					sums[i] += s * s / m
				}
			}
		}
		st := kvstore.PushOptions{Weight: float32(m) * float32(micro), Measure: true}
		if micro > 1 {
			st.Micro = func(key string) kvstore.Micro { return kvstore.Micro{Count: micro, Sqr: sums[key[0]-'a']} }
		}
		for i := range keys {
			for _, w := range values[i] {
				now += float64(w) * float64(w)
			}
		}
		var entries []kvstore.Entry
		for i, key := range keys {
			entries = append(entries, kvstore.Entry{Key: key, Grads: grads[i : i+1], Outs: values[i : i+1]})
		}
		if err := kv.Step(st).PushPullMany(ctx, entries); err != nil {
			return err
		}
		var n kvstore.Norms
		ok := true
		for _, key := range keys {
			x, known := kv.Norms(key)
			ok = ok && known
			n.Count, n.Examples, n.MeanSqr, n.SqrMean = x.Count, x.Examples, n.MeanSqr+x.MeanSqr, n.SqrMean+x.SqrMean
		}
		if ok {
			measured++
			truth += now
			sqr += (float64(n.Count)*n.SqrMean - n.MeanSqr) / float64(n.Count-1)
			noise += (n.MeanSqr - n.SqrMean) * n.Examples / initialBatch / float64(n.Count-1)
		}
		if step%50 == 0 {
			fmt.Println("step", step)
		}
	}
	k := float64(measured)
	_, err := fmt.Printf("measured %d truth %v %v estimates %v %v\n", measured, truth/k, quadraticSize*quadraticNoise*quadraticNoise/initialBatch, sqr/k, noise/k)
	return err
}

// runQuadratic runs measureQuadratic on a job of processes and returns the line of its result,
// which is the same on all workers. A server is killed once worker 0 has made some steps; 0: none
// is.
func runQuadratic(t *testing.T, workers, micro, steps, killAt int) string {
	t.Helper()
	var mu sync.Mutex
	results := make([]string, workers)
	reached := make(chan bool)
	var reading sync.WaitGroup
	var ends []*io.PipeWriter
	j := processJob{workers: workers, servers: 2, env: []string{fmt.Sprintf("%s=%d %d", normsVariable, steps, micro)}}
	j.stdout = func(worker int) io.Writer {
		r, w := io.Pipe()
		ends = append(ends, w)
		reading.Go(func() {
			lines := bufio.NewScanner(r)
			for lines.Scan() {
				var step int
				if n, _ := fmt.Sscanf(lines.Text(), "step %d", &step); n == 0 {
					mu.Lock()
					results[worker] = lines.Text()
					mu.Unlock()
				} else if worker == 0 && killAt > 0 && step >= killAt {
					select {
					case reached <- true:
					default:
					}
				}
			}
		})
		return w
	}
	if killAt > 0 {
		j.env = append(j.env, "PARAGON_BACKUPS=1")
		j.lost = "server 1"
		j.started = func(processes map[string]*os.Process) {
			select {
			case <-reached:
				if err := processes[j.lost].Kill(); err != nil {
					t.Error(err)
				}
			case <-time.After(2 * time.Minute):
				t.Errorf("worker 0 has not made %d steps", killAt)
			}
		}
	}
	if err := j.run(t); err != nil {
		t.Fatal(err)
	}
	for _, w := range ends {
		w.Close()
	}
	reading.Wait()
	for rank, result := range results {
		if result != results[0] || !strings.HasPrefix(result, "measured") {
			t.Errorf("%d workers, %d micro-batches: worker %d says %q, worker 0 %q", workers, micro, rank, result, results[0])
		}
	}
	return results[0]
}

// The servers' norms give estimates of the gradient's squared norm and of its noise without a bias,
// whatever the number of workers and micro-batches; and the same bits after a server was killed.
func TestNormsOfAQuadraticModelOverProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	type size struct{ workers, micro int }
	sizes, steps, within := []size{{2, 2}}, 400, 0.06
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		sizes, steps, within = []size{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {4, 1}, {4, 2}}, 4000, 0.03
	}
	for _, x := range sizes {
		t.Run(fmt.Sprintf("workers=%d/micro=%d", x.workers, x.micro), func(t *testing.T) {
			result := runQuadratic(t, x.workers, x.micro, steps, steps/3) // a server is killed
			t.Log(result)
			var measured int
			var wantSqr, wantNoise, sqr, noise float64
			if _, err := fmt.Sscanf(result, "measured %d truth %v %v estimates %v %v", &measured, &wantSqr, &wantNoise, &sqr, &noise); err != nil {
				t.Fatalf("%q: %v", result, err)
			}
			if x.workers*x.micro > 1 && measured != steps {
				t.Errorf("%d of %d steps were measured", measured, steps)
			}
			if math.Abs(sqr/wantSqr-1) > within || math.Abs(noise/wantNoise-1) > within {
				t.Errorf("got ‖G‖² %v and noise %v, want %v and %v within %v", sqr, noise, wantSqr, wantNoise, within)
			}
			if os.Getenv("PARAGON_TEST_SLOW") == "" {
				return // TestAKilledServerChangesNoBit compares norms, too
			}
			if want := runQuadratic(t, x.workers, x.micro, steps, 0); result != want {
				t.Errorf("with a server that is killed: got %q, want %q", result, want)
			}
		})
	}
}
