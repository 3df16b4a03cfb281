package kvstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// holding is what the process has at a moment when nothing is under way.
type holding struct {
	heap       int64 // live bytes
	resident   int64 // bytes that the system counts, shared memory included; 0: not known here
	goroutines int
	files      int
	mappings   int
}

// busyGoroutines counts goroutines but those that serve requests or make calls, which stay for the
// next one: as many as there were at one time.
func busyGoroutines() (n int) {
	stacks := make([]byte, 1<<20)
	for s := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if !strings.Contains(s, "transport.(*requestPool).work") && !strings.Contains(s, "kvstore.(*callPool).work") {
			n++
		}
	}
	return n
}

// inUse measures after collections, and waits a little for what ends by itself: goroutines of
// connections that are closed.
func inUse() holding {
	h := holding{goroutines: busyGoroutines()}
	for range 4 { // finalizers give shared memory back, in turns
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.heap = int64(m.HeapAlloc)
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.files = len(list)
	}
	if b, err := os.ReadFile("/proc/self/maps"); err == nil {
		h.mappings = strings.Count(string(b), "\n")
	}
	if f, err := os.Open("/proc/self/status"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
				_, _ = fmt.Sscan(rest, &h.resident)
				h.resident <<= 10
			}
		}
	}
	return h
}

// flat runs rounds of something that comes and goes, and judges by what the process holds after a
// few and at the end.
func flat(t *testing.T, rounds int, perRound int64, change func(round int)) {
	t.Helper()
	var early, late holding
	for round := range rounds {
		change(round)
		if t.Failed() {
			return
		}
		if round == rounds/3-1 {
			early = inUse()
		}
	}
	late = inUse()
	for end := time.Now().Add(5 * time.Second); late.goroutines > early.goroutines+8 && time.Now().Before(end); late = inUse() {
		time.Sleep(20 * time.Millisecond)
	}
	runtime.KeepAlive(change) // and what it holds
	n := int64(rounds - rounds/3)
	t.Logf("after %d rounds %+v, after %d %+v: %d bytes of live heap and %d resident a round", rounds/3, early, rounds, late,
		(late.heap-early.heap)/n, (late.resident-early.resident)/n)
	if grown := late.heap - early.heap; grown > n*perRound {
		t.Errorf("the live heap grew by %d bytes in %d rounds, want at most %d a round", grown, n, perRound)
	}
	if grown := late.resident - early.resident; grown > n*perRound+8<<20 && !underRace {
		t.Errorf("resident memory grew by %d bytes in %d rounds, want at most %d a round and 8 MB", grown, n, perRound)
	}
	if late.goroutines > early.goroutines+8 || late.files > early.files+8 || late.mappings > early.mappings+40 {
		t.Errorf("goroutines, files and mappings: got %d, %d and %d, were %d, %d and %d: want them as they were",
			late.goroutines, late.files, late.mappings, early.goroutines, early.files, early.mappings)
	}
}

// modelKeys and keySize make a model of 480 KB, with Adam 1.4 MB, in keys that are not cut. What a
// change may leave behind is less than one key.
const modelKeys, keySize = 6, 20_000

// A flatJob is a job on this machine, with the transport of real jobs, that trains whenever it is
// asked to.
type flatJob struct {
	*jobtest.Job
	stores []kvstore.Store
	grads  [][]float32
}

func newFlatJob(t *testing.T, workers int, elastic cluster.Elastic) *flatJob {
	t.Helper()
	j := &flatJob{Job: jobtest.New(t, jobtest.Config{TCP: true, Over: transport.Auto, Workers: workers, Servers: 2, Elastic: elastic})}
	j.stores = j.Stores(t, "dist_sync")
	together(t, j.stores, func(kv kvstore.Store) error {
		if err := kv.SetOptimizer(t.Context(), optim.Config{Name: "adam", LearningRate: 0.01}); err != nil {
			return err
		}
		for k := range modelKeys {
			if err := kv.Init(t.Context(), fmt.Sprint("w", k), make([]float32, keySize)); err != nil {
				return err
			}
		}
		return nil
	})
	for range workers {
		j.grads = append(j.grads, kvstore.Float32s(modelKeys*keySize))
	}
	return j
}

// train makes some steps.
func (j *flatJob) train(t *testing.T, steps int) {
	t.Helper()
	var all sync.WaitGroup
	for rank, kv := range j.stores {
		for k := range modelKeys {
			all.Go(func() {
				x := j.grads[rank][k*keySize : (k+1)*keySize]
				for range steps {
					if err := kv.PushPull(t.Context(), fmt.Sprint("w", k), [][]float32{x}, [][]float32{x}); err != nil {
						t.Errorf("worker %d: %v", rank, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// ask asks the scheduler, again where that helps.
func (j *flatJob) ask(t *testing.T, request string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		answer, err := j.Control(context.Background(), request)
		if err == nil && strings.Contains(answer, `"again":true`) && time.Now().Before(end) {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if err != nil || strings.Contains(answer, "error") {
			t.Fatalf("%s: got %s, error %v", request, answer, err)
		}
		return
	}
}

// settled waits until so many servers share the shards, and every backup is whole.
func (j *flatJob) settled(t *testing.T, servers int) {
	t.Helper()
	var s control.Status
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		answer, err := j.Control(context.Background(), `{"op":"status"}`)
		if err == nil {
			err = json.Unmarshal([]byte(answer), &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		here, idle, filling := 0, 0, 0
		for _, x := range s.Servers {
			if x.Status == "HERE" {
				here, filling = here+1, filling+x.Filling
				if x.Shards == 0 {
					idle++
				}
			}
		}
		if here == servers && idle == 0 && filling == 0 {
			return
		}
	}
	t.Fatalf("want %d servers with a share each, got %+v", servers, s.Servers)
}

// Servers come and go while a job trains: what it holds is the same after each time.
func TestMemoryIsFlatWhileServersComeAndGo(t *testing.T) {
	j := newFlatJob(t, 1, cluster.Elastic{Backups: 1})
	flat(t, 15, 64<<10, func(int) {
		j.ask(t, `{"op":"add-server"}`)
		j.StartServer(2)
		var training sync.WaitGroup
		training.Go(func() { j.train(t, 3) })
		j.settled(t, 3)
		training.Wait()
		j.ask(t, `{"op":"remove-server","rank":2}`)
		<-j.ServerEnded(2)
		training.Go(func() { j.train(t, 2) })
		j.settled(t, 2)
		training.Wait()
	})
}

// The same of workers that join, take the values, and leave before they count.
func TestMemoryIsFlatWhileWorkersComeAndGo(t *testing.T) {
	j := newFlatJob(t, 1, cluster.Elastic{Enabled: true})
	round := 0
	flat(t, 30, 16<<10, func(int) {
		round++
		kv, err := joining.Join(t.Context(), j.JoinerConfig(round), "dist_sync")
		if err != nil {
			t.Fatal(err)
		}
		out := make([]float32, keySize)
		for k := range modelKeys {
			name := fmt.Sprint("w", k)
			if err := kv.Init(t.Context(), name, out); err != nil {
				t.Error(err)
			}
			if err := kv.Pull(t.Context(), name, out); err != nil {
				t.Error(err)
			}
		}
		if err := kv.Close(); err != nil {
			t.Error(err)
		}
		j.train(t, 1)
	})
}
