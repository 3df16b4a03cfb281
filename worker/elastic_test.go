package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// countingLoss is the loss of a model that has parameters with an element for each example, and the
// loss Σ x·w: with x_i = 1/n for each of n examples of a batch the gradient of the sum says which
// examples there were. With state it also has a batch norm, whose running statistics are averaged
// at the end of epochs.
func countingLoss(examples, parameters int, state bool) *G.Node {
	g := G.NewGraph()
	x := nn.Input(g, "x", examples)
	var loss *G.Node
	for k := range parameters {
		w := G.NewVector(g, tensor.Float32, G.WithShape(examples), G.WithName(fmt.Sprint("w", k)), G.WithValue(tensor.New(tensor.WithShape(examples), tensor.Of(tensor.Float32))))
		sum := G.Must(G.Sum(G.Must(G.HadamardProd(x, w))))
		if loss == nil {
			loss = sum
		} else {
			loss = G.Must(G.Add(loss, sum))
		}
	}
	if state {
		z := nn.Input(g, "z", 2, 1, 2, 2)
		loss = G.Must(G.Add(loss, G.Must(G.Sum(nn.Flatten(nn.BatchNorm2D(z, "bn", nn.BatchNormConfig{}))))))
	}
	return loss
}

// An elasticPlan says what a job is like in which workers come and go.
type elasticPlan struct {
	workers, servers int
	examples, batch  int
	epochs           int
	parameters       int // 0: 1
	elastic          cluster.Elastic
	optimizer        optim.Config
	local            int // local steps
	guard            *kvstore.Guard
	seed             uint64
	// order is that of the workers' feeds, joinOrder that of those who join.
	order, joinOrder sampler.Order
	// at is called when a worker asks for the batch of its step number n, from 0.
	at func(j *elasticJob, w *elasticWorker, n int)
	// change changes a worker's configuration.
	change func(w *elasticWorker, c *worker.FitConfig)
	hide   bool // that the feed can be divided
	ahead  bool // it is asked for the next batch while a step computes
	state  bool // the model has running statistics
	freeze []string
	// prepare is called with a worker's compiled model, before NewTrainer.
	prepare func(w *elasticWorker)
	// log is where the log of all workers goes; nil: nowhere.
	log io.Writer
	// wrap puts a store around a worker's own.
	wrap func(w *elasticWorker, store kvstore.Store) kvstore.Store
}

// An elasticJob is such a job while it runs.
type elasticJob struct {
	t    *testing.T
	plan elasticPlan
	job  *jobtest.Job
	log  *slog.Logger

	mu      sync.Mutex
	workers []*elasticWorker
	running sync.WaitGroup
	used    map[string]worker.Used
	once    map[string]bool
}

// An elasticWorker is one worker's process.
type elasticWorker struct {
	*worker.Partition
	j       *elasticJob
	number  int
	joining bool
	host    *faultnet.Host
	ctx     context.Context
	cancel  context.CancelFunc
	program *nn.Program
	trainer *worker.Trainer
	store   kvstore.Store

	x       []float32
	next    [][]int // the runs to come
	step    int
	at      uint64           // the step in all that the next batch is for
	batches map[uint64][]int // by step in all
	values  []float32        // at the end
	epochs  []worker.EpochInfo
	scores  *scripted // its evaluator, of tests that have one
	models  *modelLog // its evaluator, of other tests
	hooks   [][2]int
	killed  bool
	told    chan struct{} // closed by leave
	leaving sync.Once
	err     error
	done    chan struct{}
}

func (w *elasticWorker) Begin(_ context.Context, epoch, step int) error {
	w.next, w.at = nil, w.trainer.Steps()
	for run := range w.Batches(epoch, step) {
		w.next = append(w.next, slices.Clone(run))
	}
	return nil
}

// Use makes it a worker.BatchFeed.
func (w *elasticWorker) Use(programs []*nn.Program, perRun int) (err error) {
	if w.x, err = programs[0].Input("x"); err != nil {
		return err
	}
	return w.SetRun(perRun)
}

// Ahead is right for a model whose only gradient is there when all has been computed.
func (w *elasticWorker) Ahead() bool {
	return w.j.plan.ahead && w.j.plan.parameters <= 1 && !w.j.plan.state
}

func (w *elasticWorker) Next(ctx context.Context) ([]int, error) {
	if w.j.plan.at != nil {
		w.j.plan.at(w.j, w, w.step)
	}
	w.step++
	select {
	case <-time.After(time.Duration(5+w.number%3) * time.Millisecond):
	case <-w.ctx.Done():
		return nil, errFault
	}
	clear(w.x)
	run := w.next[0]
	for _, i := range run {
		w.x[i] += 1 / float32(len(run))
	}
	w.batches[w.at] = run
	w.next = w.next[1:]
	w.at++
	return []int{len(run)}, nil
}

func (w *elasticWorker) Close() error { return nil }

// plainFeed hides that a feed can be divided.
type plainFeed struct{ worker.Feed }

// start starts a worker.
func (j *elasticJob) start(number int, joining bool) *elasticWorker {
	w := &elasticWorker{j: j, number: number, joining: joining, batches: map[uint64][]int{}, told: make(chan struct{}), done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	cfg := j.job.WorkerConfig(number)
	if joining {
		cfg = j.job.JoinerConfig(number)
	}
	w.host = cfg.Network.(*faultnet.Host)
	j.mu.Lock()
	j.workers = append(j.workers, w)
	j.mu.Unlock()
	j.running.Go(func() {
		defer close(w.done)
		w.err = w.run(cfg)
		j.log.Info("worker ended", "number", number, "err", w.err)
	})
	return w
}

func (w *elasticWorker) run(cfg cluster.Config) (err error) {
	p := &w.j.plan
	opts := []kvstore.Option{kvstore.WithLogger(w.j.log.With("on", w.number))}
	if p.local > 0 {
		opts = append(opts, kvstore.WithLocalSteps(p.local))
	}
	if p.guard != nil {
		opts = append(opts, kvstore.WithGuard(*p.guard))
	}
	if w.store, err = joining.Join(w.ctx, cfg, "dist_sync", opts...); err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, worker.ErrRemoved) || errors.Is(err, worker.ErrStopped) {
			err = errors.Join(err, w.store.Close())
			return
		}
		err = kvstore.Leave(w.store, err)
	}()
	if p.wrap != nil {
		w.store = p.wrap(w, w.store)
	}
	w.program = compile(w.j.t, countingLoss(p.examples, max(p.parameters, 1), p.state), nn.Config{OwnMask: true, Freeze: p.freeze})
	if p.prepare != nil {
		p.prepare(w)
	}
	if w.x, err = w.program.Input("x"); err != nil {
		return err
	}
	w.trainer, err = worker.NewTrainer(w.ctx, worker.Config{Store: w.store, Programs: []*nn.Program{w.program}, Optimizer: p.optimizer, Outer: optim.Config{}, Logger: w.j.log.With("on", w.number)})
	if err != nil {
		return err
	}
	defer w.trainer.Close()
	order := p.order
	if w.joining {
		order = p.joinOrder
	}
	if w.Partition, err = worker.NewPartition(p.examples, p.batch, w.store.NumWorkers(), w.store.Rank(), sampler.Ordered(order)); err != nil {
		return err
	}
	fit := worker.FitConfig{Trainer: w.trainer, Feed: w, Epochs: p.epochs, OnUsed: w.j.collect, Leave: w.told,
		OnMembership: func(rank, workers int) { w.hooks = append(w.hooks, [2]int{rank, workers}) }}
	if p.hide {
		fit.Feed = plainFeed{w}
		fit.OnUsed = nil
	}
	if p.change != nil {
		p.change(w, &fit)
	}
	w.epochs, err = worker.Fit(w.ctx, fit)
	for _, p := range w.program.Params() {
		if err == nil && p.Name == "w0" { // after an error an exchange may still be under way
			w.values = slices.Clone(p.Value)
		}
	}
	return err
}

// collect keeps what steps have used; all workers must say the same.
func (j *elasticJob) collect(u worker.Used) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := fmt.Sprintf("%d/%d/%d", u.Epoch, u.Division, u.Part)
	if old, ok := j.used[key]; ok && !slices.Equal(old.Examples, u.Examples) {
		j.t.Errorf("epoch %d division %d part %d: one worker says that %v were used, another %v", u.Epoch, u.Division, u.Part, old.Examples, u.Examples)
	}
	j.used[key] = u
}

// first reports whether it is the first call with this name.
func (j *elasticJob) first(name string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	was := j.once[name]
	j.once[name] = true
	return !was
}

// kill ends a worker's process: its connections are reset, or nobody is told.
func (j *elasticJob) kill(w *elasticWorker, silent bool) {
	w.killed = true
	w.host.Kill(silent)
	w.cancel()
}

// leave tells a worker to end, as SIGTERM would.
func (w *elasticWorker) leave() { w.leaving.Do(func() { close(w.told) }) }

// runElastic runs a job to its end.
func runElastic(t *testing.T, plan elasticPlan) *elasticJob {
	t.Helper()
	if plan.optimizer.Name == "" {
		plan.optimizer = optim.Config{Name: "sgd", LearningRate: 1}
	}
	if plan.elastic == (cluster.Elastic{}) {
		plan.elastic = cluster.Elastic{Enabled: true}
	}
	j := &elasticJob{t: t, plan: plan, used: map[string]worker.Used{}, once: map[string]bool{}, log: slog.New(slog.DiscardHandler)}
	if plan.log != nil {
		j.log = slog.New(slog.NewTextHandler(plan.log, nil))
	}
	if os.Getenv("PARAGON_TEST_LOG") != "" {
		j.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	j.job = jobtest.New(t, jobtest.Config{Workers: plan.workers, Servers: plan.servers, Elastic: plan.elastic, Seed: plan.seed, Lease: 3 * time.Second, Logger: j.log})
	for number := range plan.workers {
		j.start(number, false)
	}
	ended := make(chan struct{})
	go func() {
		j.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Minute):
		report, _ := j.job.Control(context.Background(), `{"op":"why"}`)
		for _, w := range j.workers {
			w.cancel()
		}
		t.Fatalf("the job has not ended after 5 minutes: %s", report)
	}
	for _, w := range j.workers {
		w.cancel()
	}
	return j
}

// wantEnds checks how workers ended: nil in order.
func (j *elasticJob) wantEnds(want map[int]error) {
	j.t.Helper()
	for _, w := range j.workers {
		switch is := want[w.number]; {
		case w.killed:
		case is == nil && w.err != nil, is != nil && !errors.Is(w.err, is):
			j.t.Errorf("worker %d: ended with %v, want %v", w.number, w.err, is)
		}
	}
}

// wantOnce checks that each example of each epoch was used exactly once.
func (j *elasticJob) wantOnce() {
	j.t.Helper()
	for epoch := range j.plan.epochs {
		times := make([]int, j.plan.examples)
		for _, u := range j.used {
			if u.Epoch == epoch {
				for _, i := range u.Examples {
					times[i]++
				}
			}
		}
		for i, n := range times {
			if n != 1 {
				j.t.Errorf("epoch %d: example %d was used %d times, want once", epoch, i, n)
				return
			}
		}
		steps := map[int]bool{}
		for _, w := range j.workers { // also of those who came in the middle of the epoch
			for _, e := range w.epochs {
				if e.Epoch == epoch {
					steps[e.First+len(e.Losses)] = true
				}
			}
		}
		if len(steps) > 1 {
			j.t.Errorf("epoch %d has %v steps, as its workers count them, want one number", epoch, steps)
		}
	}
}

// wantValues checks the parameters of those who ended in order against what the steps' batches
// give: SGD with the mean over all examples of a step. Nobody may have been lost.
func (j *elasticJob) wantValues() {
	j.t.Helper()
	steps := map[uint64][]int{}
	for _, w := range j.workers {
		for step, batch := range w.batches {
			steps[step] = append(steps[step], batch...)
		}
	}
	want := make([]float64, j.plan.examples)
	for _, all := range steps {
		for _, i := range all {
			want[i] -= j.plan.optimizer.LearningRate / float64(len(all))
		}
	}
	for _, w := range j.workers {
		if w.err != nil {
			continue
		}
		for i, v := range w.values {
			if math.Abs(float64(v)-want[i]) > 1e-5 {
				j.t.Errorf("worker %d: value %d is %v, want %v", w.number, i, v, want[i])
				break
			}
		}
	}
}

// Two workers become four in the middle of an epoch, then three: nobody stops, each example is used
// once in each epoch, and the parameters are those that SGD gives with the batches that the members
// had.
func TestWorkersComeAndGoWithinAnEpoch(t *testing.T) {
	for _, order := range []sampler.Order{sampler.Permutation, sampler.Contiguous, someBlocks(199, 3)} {
		t.Run(order.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { comeAndGo(t, order) }) })
	}
}

// someBlocks is the order of so many examples in blocks of unequal sizes.
func someBlocks(examples, window int) sampler.Order {
	var firsts []int
	for first := 0; first < examples; first += 1 + len(firsts)*7%11 {
		firsts = append(firsts, first)
	}
	return sampler.Blocks(firsts, window)
}

func comeAndGo(t *testing.T, order sampler.Order) {
	j := runElastic(t, elasticPlan{workers: 2, servers: 2, examples: 199, batch: 3, epochs: 3, parameters: 3, order: order, joinOrder: order,
		at: func(j *elasticJob, w *elasticWorker, n int) {
			switch {
			case w.number == 0 && n == 5:
				j.start(2, true)
				j.start(3, true)
			case w.number == 0 && n == 22:
				if _, err := j.job.Control(context.Background(), `{"op":"remove","host":"worker1"}`); err != nil {
					j.t.Error(err)
				}
			}
		}})
	j.wantEnds(map[int]error{1: worker.ErrRemoved})
	j.wantOnce()
	j.wantValues()
	last := j.workers[0].hooks[len(j.workers[0].hooks)-1]
	if last != [2]int{0, 3} || !slices.Contains(j.workers[0].hooks, [2]int{0, 4}) {
		t.Errorf("membership hooks of worker 0: got %v, want one with 4 workers and the last with 3", j.workers[0].hooks)
	}
}

// A random job: workers join, are lost, loudly or silently, are removed, and are told to leave, at
// random steps of random workers, rank 0 included. Each example of each epoch is used exactly once
// by acknowledged steps, all agree on which, and nobody waits for ever.
func TestExamplesAreUsedOnceWhateverHappens(t *testing.T) {
	eachSeed(t, 4, 12, randomJob)
}

// eachSeed makes a random job of each seed on fake time: quick ones of them, or all with
// PARAGON_TEST_SLOW. Others are those of PARAGON_TEST_SEEDS, or the one of PARAGON_TEST_SEED.
func eachSeed(t *testing.T, quick, all uint64, job func(t *testing.T, seed uint64)) {
	t.Helper()
	seeds, first := quick, uint64(1)
	switch {
	case testing.Short():
		seeds = 4
	case slow():
		seeds = all
	}
	if n, err := strconv.ParseUint(os.Getenv("PARAGON_TEST_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	if n, err := strconv.ParseUint(os.Getenv("PARAGON_TEST_SEED"), 10, 64); err == nil {
		seeds, first = 1, n
	}
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { job(t, seed) })
		})
	}
}

func randomJob(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	plan := elasticPlan{
		workers: 2 + r.IntN(3), servers: 1 + r.IntN(2), examples: 40 + r.IntN(160), batch: 1 + r.IntN(5), epochs: 1 + r.IntN(3),
		parameters: 1 + r.IntN(3), elastic: cluster.Elastic{Enabled: true, MinWorkers: 1}, seed: seed, local: []int{0, 0, 0, 3}[r.IntN(4)],
	}
	if plan.local > 0 {
		plan.optimizer = optim.Config{Name: "sgd", LearningRate: 0.1}
	} else { // the parameters count how often each example was used
		plan.optimizer = optim.Config{Name: "test", LearningRate: 1, Reduction: optim.Sum}
	}
	plan.order = []sampler.Order{sampler.Permutation, sampler.Contiguous, someBlocks(plan.examples, 2)}[seed%3]
	plan.joinOrder = plan.order
	if plan.ahead = seed%2 == 0; plan.ahead {
		plan.parameters = 1
	}
	plan.happen(r, 1+r.IntN(6))
	if r.IntN(4) == 0 { // with all that a run does beside its steps
		dir, every := t.TempDir(), 1+r.IntN(9)
		plan.state = true
		plan.change = func(w *elasticWorker, c *worker.FitConfig) {
			c.Checkpoint = worker.CheckpointConfig{Dir: dir, EverySteps: every}
			c.Evaluator = slowEvaluator{w}
			if plan.local == 0 {
				c.EvaluateSteps = 12 - every
			}
		}
	}
	j := runElastic(t, plan)
	j.wantNoFailure()
	j.wantOnce()
	if plan.local == 0 {
		j.wantCounts()
	}
}

// happen draws what happens to n workers in steps of theirs: they join, are lost, loudly or
// silently, are removed, or are told to leave.
func (plan *elasticPlan) happen(r *rand.Rand, n int) {
	type event struct{ kind, worker, step int }
	var events []event
	for range n {
		events = append(events, event{r.IntN(5), r.IntN(5), r.IntN(40)})
	}
	next, gone := plan.workers, map[int]bool{}
	plan.at = func(j *elasticJob, w *elasticWorker, n int) {
		for i, e := range events {
			if e.worker != w.number || n < e.step || !j.first(fmt.Sprint("event", i)) {
				continue
			}
			j.mu.Lock()
			alone := j.plan.workers-len(gone) <= 1 // of those who began: a worker that joins may come too late
			number := next
			if e.kind < 2 {
				next++
			} else if !alone {
				gone[w.number] = true
			}
			j.mu.Unlock()
			switch {
			case e.kind < 2:
				j.start(number, true)
			case alone && w.number < j.plan.workers:
			case e.kind == 3:
				w.leave()
			case e.kind == 2:
				silent := i%2 == 0
				j.running.Go(func() { // at some time in the step
					time.Sleep(time.Duration(i*1700) * time.Microsecond)
					j.kill(w, silent)
				})
			default:
				if _, err := j.job.Control(context.Background(), fmt.Sprintf(`{"op":"remove","host":"worker%d"}`, w.number)); err != nil {
					j.log.Info("remove", "err", err)
				}
			}
		}
	}
}

// wantNoFailure checks that those who were not killed trained to the end or were removed. One that
// joins may come too late.
func (j *elasticJob) wantNoFailure() {
	j.t.Helper()
	for _, w := range j.workers {
		if w.err != nil && !w.killed && !errors.Is(w.err, worker.ErrRemoved) && !w.joining {
			j.t.Errorf("worker %d: %v", w.number, w.err)
		}
	}
}

// A slowEvaluator takes its time.
type slowEvaluator struct{ w *elasticWorker }

func (e slowEvaluator) Evaluate(ctx context.Context) (worker.Scores, error) {
	select {
	case <-time.After(time.Duration(5+e.w.number) * time.Millisecond):
		return worker.Scores{}, nil
	case <-ctx.Done():
		return worker.Scores{}, ctx.Err()
	}
}

// wantCounts checks the parameters of the survivors, where the servers add up how often each
// example was used: once in each epoch, and once more if it was in the last step of a lost worker,
// of which some contributions came and others did not.
func (j *elasticJob) wantCounts() {
	j.t.Helper()
	lost := 0
	for _, w := range j.workers {
		if w.killed {
			lost++
		}
	}
	for _, w := range j.workers {
		if w.err != nil || w.killed || w.epochs == nil {
			continue
		}
		more := 0
		for i, v := range w.values {
			n := int(math.Round(float64(v)))
			if n < j.plan.epochs {
				j.t.Errorf("worker %d: value %d is %v, want at least one for each of %d epochs", w.number, i, v, j.plan.epochs)
				return
			}
			more += n - j.plan.epochs
		}
		if more > lost*j.plan.batch {
			j.t.Errorf("worker %d: examples were used %d times more than once an epoch, want at most a batch of %d for each of %d lost workers", w.number, more, j.plan.batch, lost)
		}
	}
}
