package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// examplesOf is how many examples each step of the workers below uses.
const examplesOf = 3

// A crowd is a job of workers that train with the store itself, as the comment of Elastic says.
// Without an optimizer a round's value is its sum, and each contributes a power of two, so that the
// values say who was in which round.
type crowd struct {
	t      *testing.T
	job    *jobtest.Job
	steps  uint64 // after which all end
	opts   []kvstore.Option
	logger *slog.Logger
	at     func(w *hand, step uint64) // called by each worker before its step
	mixed  bool                       // workers of odd and of even ranks make other calls for one key

	running sync.WaitGroup
	mu      sync.Mutex                   // guards the rest, and the kv and dead of each hand
	sums    map[string]map[uint64]uint64 // by key and step
	ended   map[string]error             // by host
	cuts    map[uint64]kvstore.Division  // by change
	shares  map[uint64][]kvstore.NodeID  // who shared the division that began with a change
	hands   map[string]*hand
}

// A hand is one of its workers.
type hand struct {
	c    *crowd
	host *faultnet.Host
	kv   kvstore.Store
	step uint64
	dead bool
}

func (c *crowd) say(format string, args ...any) {
	c.logger.Info(fmt.Sprintf(format, args...))
}

// add puts a worker among the hands; on returns the one on a host.
func (c *crowd) add(host string, w *hand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hands[host] = w
}

func (c *crowd) on(host string) *hand {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hands[host]
}

// node returns the ID of the worker on a host, which has made its store.
func (c *crowd) node(host string) kvstore.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hands[host].kv.NodeID()
}

// start begins a worker's process.
func (c *crowd) start(cfg cluster.Config) *hand {
	name := cfg.Network.(*faultnet.Host).Name()
	w := &hand{c: c, host: c.job.Net.Host(name)}
	cfg.Network, cfg.SchedulerTimeout = w.host, 2*silence
	c.add(name, w)
	c.running.Go(func() {
		err := w.work(c.t.Context(), cfg)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended[name] = err
		c.say("worker on %s ended: %v", name, err)
	})
	return w
}

// keys that every step pushes to: over two servers, a table among them.
var crowdKeys = []string{"a", "b", "c", "rows"}

func (w *hand) work(ctx context.Context, cfg cluster.Config) (err error) {
	c := w.c
	kv, err := joining.Join(ctx, cfg, "dist_sync", append([]kvstore.Option{kvstore.WithLogger(c.logger), kvstore.WithTimeout(2 * time.Minute)}, c.opts...)...)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer func() {
		if errors.Is(err, kvstore.ErrRemoved) || errors.Is(err, kvstore.ErrUnavailable) {
			err = errors.Join(err, kv.Close())
		} else {
			err = kvstore.Leave(kv, err)
		}
	}()
	c.mu.Lock()
	w.kv = kv
	c.mu.Unlock()
	job := kv
	if err := errors.Join(kv.InitAverage(ctx, "flag", []float32{0}), kv.Init(ctx, "a", []float32{0}), kv.Init(ctx, "b", make([]float32, 2)),
		kv.Init(ctx, "c", make([]float32, 30_000)), kv.InitRows(ctx, "rows", 5, 1, nil)); err != nil {
		return err
	}
	if job.Joining() {
		for what, err := range map[string]error{"push": kv.Push(ctx, "a", []float32{1}), "push rows": kv.PushRows(ctx, "rows", nil, nil),
			"barrier": kv.Barrier(ctx), "load": kv.Load(ctx, "/nowhere"), "rate": kv.SetLearningRate(ctx, 9, 1), "arrive": job.Arrive(ctx, kvstore.Arrival{})} {
			if !errors.Is(err, kvstore.ErrUnsupported) || !strings.Contains(err.Error(), "call Ready first") {
				return fmt.Errorf("%s of a joining worker: got error %v, want %v that says to call Ready", what, err, kvstore.ErrUnsupported)
			}
		}
	}
	if err := job.Ready(ctx); err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	if job.Joining() {
		return errors.New("joining after Ready")
	}
	w.step = job.Division().Steps
	member := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		d := job.Division()
		if have, ok := c.cuts[d.Change]; ok && fmt.Sprint(have) != fmt.Sprint(d) {
			c.t.Errorf("division of change %d: got %+v, another worker %+v", d.Change, d, have)
		}
		if c.cuts[d.Change] = d; c.shares[d.Change] == nil {
			c.shares[d.Change] = job.Members()
		}
	}
	member()
	began := w.step // of this division
	for ; w.step < c.steps; w.step++ {
		if c.at != nil {
			c.at(w, w.step)
		}
		flag := []float32{0}
		change := job.Pending()
		if change != 0 {
			flag[0] = 1
		}
		if err := w.push(ctx, flag); err != nil {
			return fmt.Errorf("step %d: %w", w.step, err)
		}
		if w.step%10 == 9 {
			if err := kv.Barrier(ctx); err != nil {
				return fmt.Errorf("barrier after step %d: %w", w.step, err)
			}
		}
		if flag[0] == 0 {
			continue
		}
		arrival := kvstore.Arrival{Steps: w.step + 1, Used: examplesOf * (w.step + 1 - began)}
		if arrival.Change, err = job.AwaitPending(ctx); err != nil {
			return err
		}
		if err := job.Arrive(ctx, arrival); err != nil {
			return fmt.Errorf("arrive after step %d: %w", w.step, err)
		}
		if got := job.Members()[kv.Rank()]; got != job.NodeID() || kv.NumWorkers() != len(job.Members()) {
			return fmt.Errorf("after change %d: node %d has rank %d among %v of %d workers", arrival.Change, job.NodeID(), kv.Rank(), job.Members(), kv.NumWorkers())
		}
		began = w.step + 1
		w.step++
		member()
		w.step--
	}
	return nil
}

// push makes the round of a step: flag gets what all say.
func (w *hand) push(ctx context.Context, flag []float32) error {
	kv, c := w.kv, w.c
	own := float32(uint64(1) << kv.NodeID())
	if err := kv.PushPull(ctx, "flag", [][]float32{flag}, [][]float32{flag}); err != nil {
		return err
	}
	by := kv.Weighted(examplesOf, true)
	grads := map[string][]float32{"a": {own}, "b": {own, own}, "c": slices.Repeat([]float32{own}, 30_000)}
	turn := w.step
	if c.mixed {
		turn += uint64(kv.Rank())
	}
	var calls sync.WaitGroup
	errs := make([]error, len(crowdKeys))
	for i, key := range crowdKeys {
		calls.Go(func() {
			var out []float32
			switch {
			case key == "rows":
				rows := []int64{0, 1, 2, 3, 4} // two shards
				out = make([]float32, len(rows))
				if errs[i] = by.PushRows(ctx, key, rows, []float32{own, own, own, own, own}); errs[i] == nil {
					errs[i] = kv.PullRows(ctx, key, rows, out)
				}
			case (turn+uint64(i))%2 == 0:
				out = grads[key]
				errs[i] = by.PushPull(ctx, key, [][]float32{out}, [][]float32{out})
			default:
				out = grads[key]
				if errs[i] = by.Push(ctx, key, out); errs[i] == nil {
					errs[i] = kv.Pull(ctx, key, out)
				}
			}
			if errs[i] == nil { // each shard's sum may be another one
				for k := 0; k < len(out); k += max(1, len(out)/5) {
					c.summed(w, fmt.Sprint(key, k), uint64(out[k]))
				}
			}
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}

// silence is how long a frozen worker is silent: longer than its lease.
const silence = 4 * time.Second

// summed holds what a worker saw against what the others saw.
func (c *crowd) summed(w *hand, key string, sum uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sums[key] == nil {
		c.sums[key] = map[uint64]uint64{}
	}
	if have, ok := c.sums[key][w.step]; ok && have != sum {
		c.t.Errorf("key %s step %d: %s got the sum %b, another worker %b", key, w.step, w.host.Name(), sum, have)
	}
	c.sums[key][w.step] = sum
	if id := w.kv.NodeID(); sum>>id&1 == 0 {
		c.t.Errorf("key %s step %d: the sum %b is without node %d, which contributed", key, w.step, sum, id)
	}
}

// kill ends the worker of a host, and returns when its calls have ended.
func (c *crowd) kill(host string, silent bool) {
	c.mu.Lock()
	w := c.hands[host]
	w.dead = true
	c.mu.Unlock()
	c.say("killing %s, silent %v", host, silent)
	w.host.Kill(silent)
}

func newCrowd(t *testing.T, workers int, steps uint64, seed uint64, elastic cluster.Elastic, logger *slog.Logger, edit ...func(*jobtest.Config)) *crowd {
	if logger == nil {
		logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	c := &crowd{t: t, steps: steps, logger: logger, sums: map[string]map[uint64]uint64{}, ended: map[string]error{},
		cuts: map[uint64]kvstore.Division{}, shares: map[uint64][]kvstore.NodeID{}, hands: map[string]*hand{}}
	elastic.Enabled = true
	cfg := jobtest.Config{Workers: workers, Servers: 2, Seed: seed, Elastic: elastic, Lease: 2 * time.Second, Heartbeat: 500 * time.Millisecond, Logger: logger}
	for _, f := range edit {
		f(&cfg)
	}
	c.job = jobtest.New(t, cfg)
	return c
}

// run starts the workers that were there from the start and returns when all have ended.
func (c *crowd) run(workers int) {
	for rank := range workers {
		c.start(c.job.WorkerConfig(rank))
	}
	c.running.Wait()
}

// wantEnded checks how workers ended: by host what their error is, nil in order.
func (c *crowd) wantEnded(want map[string]error) {
	c.t.Helper()
	for host, err := range c.ended {
		if w, named := want[host]; c.hands[host].dead {
			continue
		} else if !named && err != nil || named && !errors.Is(err, w) {
			c.t.Errorf("worker on %s: got error %v, want %v", host, err, w)
		}
	}
	for host := range want {
		if _, ok := c.ended[host]; !ok {
			c.t.Errorf("worker on %s never ran", host)
		}
	}
}

// wantLedger checks what the divisions say that lost workers have used against the sums that they
// were in: all of a step's, or the step was not acknowledged.
func (c *crowd) wantLedger(lost ...kvstore.NodeID) {
	c.t.Helper()
	for _, id := range lost {
		found := false
		for change, d := range c.cuts {
			var before uint64 // the change that made the division whose cut this is
			for other := range c.cuts {
				if other < change {
					before = max(before, other)
				}
			}
			members := c.shares[before]
			part := -1
			for i, x := range members {
				if x == id {
					part = i
				}
			}
			stays := false
			for _, x := range c.shares[change] {
				stays = stays || x == id
			}
			if change == 0 || part < 0 || stays {
				continue
			}
			found = true
			whole := uint64(0)
			for step := c.cuts[before].Steps; step < d.Steps; step++ {
				in := true
				for _, sums := range c.sums {
					in = in && sums[step]>>id&1 == 1
				}
				if in {
					whole++
				}
			}
			used := uint64(0)
			if len(d.Cuts) > 0 && len(d.Cuts) > len(c.cuts[before].Cuts) {
				used = uint64(d.Cuts[len(d.Cuts)-1].Used[part])
			}
			if used != examplesOf*whole {
				c.t.Errorf("node %d, lost before change %d: it used %d examples says the division, want %d: %d of its steps came whole", id, change, used, examplesOf*whole, whole)
			}
		}
		if !found {
			c.t.Errorf("node %d: no division is without it", id)
		}
	}
}

// Workers come, go and are lost in the middle of rounds, while connections break and requests come
// twice: all see the same sums, each worker is in all rounds that it contributed to, and what a
// lost one has used is known to the example.
func TestWorkersComeAndGoWhileOthersTrain(t *testing.T) {
	for seed := range seeds(1, 6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex // guards random and lost: any worker may be the first to come to a step
				random := rand.New(rand.NewPCG(seed, 5))
				draw := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return random.IntN(n)
				}
				c := newCrowd(t, 3, 50, seed, cluster.Elastic{}, nil)
				c.job.Net.Delay(faultnet.Any, faultnet.Any, time.Millisecond, 3*time.Millisecond)
				c.job.Net.Delay("scheduler", "server1", 30*time.Millisecond, 60*time.Millisecond) // which hears of changes late
				dir := t.TempDir()
				var once sync.Map
				first := func(what string) bool { _, again := once.LoadOrStore(what, true); return !again }
				soon := func(f func()) { // in the middle of something
					wait := time.Duration(draw(20_000)) * time.Microsecond
					c.running.Go(func() { time.Sleep(wait); f() })
				}
				var lost []kvstore.NodeID
				kill := func(host string, silent bool) { // odd seeds lose them the other way round
					soon(func() { c.kill(host, silent != (seed%2 == 1)) })
					mu.Lock()
					defer mu.Unlock()
					lost = append(lost, c.node(host))
				}
				c.at = func(w *hand, step uint64) {
					switch {
					case step == 3 && first("join 3"):
						c.start(c.job.JoinerConfig(3))
					case step == 12 && first("kill 2"):
						kill("worker2", true)
					case step == 13 && w.host.Name() != "worker2" && first("save"): // and another one saves meanwhile
						if err := w.kv.Save(t.Context(), filepath.Join(dir, "saved")); err != nil {
							t.Errorf("save: %v", err)
						}
					case step == 20 && first("join 4"):
						c.start(c.job.JoinerConfig(4))
						c.start(c.job.JoinerConfig(5))
					case step == 31 && first("remove 1"):
						if answer, err := c.job.Control(t.Context(), `{"op":"remove","host":"worker1"}`); err != nil || strings.Contains(answer, "error") {
							t.Errorf("remove: got %s, %v", answer, err)
						}
					case step == 39 && first("kill 0"):
						kill("worker0", false)
					case step%7 == 3 && first(fmt.Sprint("cut", step)):
						servers := []string{"server0", "server1"}
						from, to := w.host.Name(), servers[draw(2)]
						soon(func() { c.job.Net.Break(from, to, 30*time.Millisecond) })
					case step%7 == 5 && first(fmt.Sprint("cut", step)):
						from := w.host.Name()
						soon(func() { c.job.Net.Cut(from, "server1") })
					}
				}
				c.run(3)
				c.wantEnded(map[string]error{"worker1": kvstore.ErrRemoved, "worker3": nil, "worker4": nil, "worker5": nil})
				c.wantLedger(lost...)
				if n := len(c.cuts); n < 5 {
					t.Errorf("got %d divisions, want at least five", n)
				}
			})
		})
	}
}

// The rank that gives values is lost before it has: the next one goes on, and nobody waits for
// ever.
func TestAnInitGoesOnWhenItsWorkerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 3, 0, 1, cluster.Elastic{}, nil)
		host := c.job.Net.Host("worker0")
		stores := make([]kvstore.Store, 3)
		var creating sync.WaitGroup
		for rank := range stores {
			creating.Go(func() {
				cfg := c.job.WorkerConfig(rank)
				if rank == 0 {
					cfg.Network = host
				}
				kv, err := joining.Join(t.Context(), cfg, "dist_sync", kvstore.WithLogger(c.logger))
				if err != nil {
					t.Error(err)
					return
				}
				stores[rank] = kv
			})
		}
		creating.Wait()
		if t.Failed() {
			return
		}
		defer stores[0].Close()
		began := time.Now()
		var waiting sync.WaitGroup
		for rank, kv := range stores[1:] {
			waiting.Go(func() {
				out := []float32{0}
				err := kv.Init(t.Context(), "x", []float32{float32(rank + 7)})
				if err == nil {
					err = kv.Pull(t.Context(), "x", out)
				}
				if err != nil || out[0] != 7 {
					t.Errorf("rank %d: got %v, error %v; want 7, the value of the next rank", rank+1, out, err)
				}
			})
		}
		time.Sleep(300 * time.Millisecond)
		host.Kill(false)
		waiting.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v, want a lease or less", took)
		}
		together(t, stores[1:], func(kv kvstore.Store) error {
			out := []float32{0}
			return errors.Join(kv.Barrier(t.Context()), kv.PushPull(t.Context(), "x", [][]float32{{1}}, [][]float32{out}), kv.Close())
		})
	})
}

// Whoever reads a file for all is lost while it does: the others are told, and what they can do.
func TestALoadWhoseReaderIsLostIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2, 0, 1, cluster.Elastic{}, nil)
		host := c.job.Net.Host("worker0")
		stores := make([]kvstore.Store, 2)
		var creating sync.WaitGroup
		for rank := range stores {
			creating.Go(func() {
				cfg := c.job.WorkerConfig(rank)
				if rank == 0 {
					cfg.Network = host
				}
				kv, err := joining.Join(t.Context(), cfg, "dist_sync", kvstore.WithLogger(c.logger))
				if err == nil {
					err = kv.Init(t.Context(), "x", make([]float32, 1000))
				}
				if err != nil {
					t.Error(err)
				}
				stores[rank] = kv
			})
		}
		creating.Wait()
		if t.Failed() {
			return
		}
		path := filepath.Join(t.TempDir(), "saved")
		if err := stores[1].Save(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		defer stores[0].Close()
		c.job.Net.Drop("worker0", "server0") // it cannot write
		var loading sync.WaitGroup
		loading.Go(func() { stores[0].Load(t.Context(), path) })
		loading.Go(func() {
			err := stores[1].Load(t.Context(), path)
			if !errors.Is(err, kvstore.ErrUnavailable) || !strings.Contains(err.Error(), "was lost before it finished") || !strings.Contains(err.Error(), "load again") {
				t.Errorf("got error %v, want %v that says what to do", err, kvstore.ErrUnavailable)
			}
		})
		time.Sleep(time.Second)
		host.Kill(false)
		loading.Wait()
		out := make([]float32, 1000)
		if err := errors.Join(stores[1].Load(t.Context(), path), stores[1].Pull(t.Context(), "x", out), stores[1].Close()); err != nil {
			t.Errorf("load again: %v", err)
		}
	})
}

// A worker that was frozen for longer than its lease is refused, and told that it is lost and what
// to do.
func TestAWorkerThatWasLostIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 3, 40, 1, cluster.Elastic{}, nil)
		var once sync.Once
		c.at = func(w *hand, step uint64) {
			if step == 10 {
				once.Do(func() {
					frozen := c.on("worker1").host
					frozen.Freeze()
					c.running.Go(func() { time.Sleep(silence); frozen.Thaw() })
				})
			}
			time.Sleep(200 * time.Millisecond)
		}
		c.run(3)
		c.wantEnded(map[string]error{"worker1": cluster.ErrLost})
		if err := c.ended["worker1"]; !errors.Is(err, kvstore.ErrUnavailable) || !strings.Contains(err.Error(), "PARAGON_JOIN=1") {
			t.Errorf("got error %v, want %v that says how to come back", err, kvstore.ErrUnavailable)
		}
	})
}

// At a boundary nothing may be under way.
func TestArriveWantsNothingUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := jobtest.New(t, jobtest.Config{Workers: 2}).Stores(t, "dist_sync")
		together(t, stores, func(kv kvstore.Store) error { return kv.Init(t.Context(), "x", []float32{0}) })
		ctx, cancel := context.WithCancel(t.Context())
		var pulling sync.WaitGroup
		pulling.Go(func() { stores[0].PushPull(ctx, "x", [][]float32{{1}}, nil) })
		synctest.Wait()
		if err := stores[0].Arrive(t.Context(), kvstore.Arrival{Change: 1}); err == nil || !strings.Contains(err.Error(), "1 other calls of this worker are under way") {
			t.Errorf("got error %v, want one that names the call", err)
		}
		cancel()
		pulling.Wait()
	})
	kv, err := kvstore.Create(t.Context(), "local")
	must(err)
	defer kv.Close()
	job := kv
	must(job.Ready(t.Context()))
	if err := job.Arrive(t.Context(), kvstore.Arrival{}); !errors.Is(err, kvstore.ErrUnsupported) {
		t.Errorf("arrive in a local store: got error %v, want %v", err, kvstore.ErrUnsupported)
	}
	if got := job.Members(); job.Joining() || job.Pending() != 0 || len(got) != 1 || got[0] != job.NodeID() {
		t.Errorf("local store: joining %v, pending %d, members %v", job.Joining(), job.Pending(), got)
	}
}

// In an asynchronous store a worker that joins counts from its first push on, and whoever is lost
// holds nobody up.
func TestAsynchronousWorkersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2, 0, 1, cluster.Elastic{}, nil)
		ctx := t.Context()
		create := func(cfg cluster.Config) (kvstore.Store, error) {
			host := c.job.Net.Host(cfg.Host)
			cfg.Network = host
			kv, err := joining.Join(ctx, cfg, "dist_async", kvstore.WithLogger(c.logger), kvstore.WithStaleness(1))
			if err == nil {
				c.add(cfg.Host, &hand{c: c, host: host, kv: kv})
				t.Cleanup(func() { kv.Close() })
			}
			return kv, err
		}
		stores := make([]kvstore.Store, 2)
		for rank := range stores {
			c.running.Go(func() {
				kv, err := create(c.job.WorkerConfig(rank))
				if err == nil {
					err = errors.Join(kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1}), kv.Init(ctx, "x", []float32{0}))
				}
				if err != nil {
					t.Error(err)
				}
				stores[rank] = kv
			})
		}
		c.running.Wait()
		if t.Failed() {
			return
		}
		out := []float32{0}
		push := func(kv kvstore.Store, times int) {
			t.Helper()
			for range times {
				if err := kv.Push(ctx, "x", []float32{1}); err != nil {
					t.Fatal(err)
				}
			}
		}
		push(stores[0], 3)
		push(stores[1], 3)
		joiner, err := create(c.job.JoinerConfig(2))
		if err == nil {
			err = errors.Join(joiner.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1}), joiner.Init(ctx, "x", []float32{9}), joiner.Pull(ctx, "x", out))
		}
		if err != nil || out[0] != 6 {
			t.Fatalf("a joining worker pulled %v, error %v; want 6", out, err)
		}
		c.running.Go(func() {
			if err := joiner.Ready(ctx); err != nil {
				t.Error(err)
			}
		})
		for _, kv := range stores {
			c.running.Go(func() {
				job := kv
				change, err := job.AwaitPending(ctx)
				if err == nil {
					err = job.Arrive(ctx, kvstore.Arrival{Change: change, Steps: 3})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		c.running.Wait()
		push(stores[0], 1) // one ahead of all the others, as late ones are taken to have made what the slowest had
		if err := stores[0].Pull(ctx, "x", out); err != nil || out[0] != 7 {
			t.Fatalf("got %v, error %v; want 7", out, err)
		}
		push(joiner, 2)
		push(stores[1], 1)
		push(stores[0], 1)
		c.kill("worker1", false)
		push(stores[0], 2) // further ahead of it than the bound, which holds until its lease is over or its connection gone
		push(joiner, 2)
		if err := stores[0].Pull(ctx, "x", out); err != nil || out[0] != 15 {
			t.Errorf("after a loss: got %v, error %v; want 15", out, err)
		}
	})
}
