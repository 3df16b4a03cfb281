package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// A player is a session whose requests a test makes as Python would, without a socket between.
type player struct {
	t     *testing.T
	s     *session
	store kvstore.Store
	last  uint64
	// region has a slot for the numbers of 32 examples, and then the slots that the test wants.
	region uint32
}

// play begins a session of a store, with slots of these lengths from number 1 on. The session ends
// with the test.
func play(t *testing.T, store kvstore.Store, lengths ...int) *player {
	t.Helper()
	p := &player{t: t, s: newSession(nil, slog.New(slog.DiscardHandler), func(string) string { return "" }), store: store}
	p.s.member.store = store
	t.Cleanup(func() {
		p.s.end(errClosed)
		p.s.requests.wg.Wait()
	})
	var made regionResult
	if err := p.ask(t.Context(), "memory", map[string]any{"lengths": append([]int{64}, lengths...)}, &made); err != nil {
		t.Fatal(err)
	}
	p.region = made.Region
	return p
}

// ask makes a request.
func (p *player) ask(ctx context.Context, op string, args map[string]any, result any) error {
	p.last++
	sent := map[string]any{"id": p.last, "op": op}
	for name, value := range args {
		sent[name] = value
	}
	text, err := json.Marshal(sent)
	if err != nil {
		p.t.Error(err)
		return err
	}
	got, err := p.s.perform(ctx, request{ID: p.last, Op: op}, text)
	if f, ok := got.(withFile); ok {
		got = f.result
	}
	if err != nil || result == nil {
		return err
	}
	if text, err = json.Marshal(got); err == nil {
		err = json.Unmarshal(text, result)
	}
	return err
}

// indices are examples of the share.
func (p *player) indices(ctx context.Context, first, count int) ([]int64, error) {
	var found struct{ Count int }
	if err := p.ask(ctx, "indices", map[string]any{"region": p.region, "slot": 0, "first": first, "count": count}, &found); err != nil {
		return nil, err
	}
	list, r, err := p.s.memory.slot(p.region, 0)
	if err != nil {
		return nil, err
	}
	defer p.s.memory.giveBack(r)
	return append([]int64(nil), integers(list)[:found.Count]...), nil
}

// slot is a slot's values.
func (p *player) slot(number int) []float32 {
	p.t.Helper()
	values, r, err := p.s.memory.slot(p.region, number)
	if err != nil {
		p.t.Fatal(err)
	}
	p.s.memory.giveBack(r)
	return values
}

// contribute pushes a slot to a key, whose new value is there then. It is of examples, if that is
// not 0: how many is counted.
func (p *player) contribute(ctx context.Context, weight, examples int, key string, slot int) error {
	keys := []map[string]any{{"key": key, "region": p.region, "grad": slot}}
	return p.ask(ctx, "pushpull", map[string]any{"keys": keys, "weight": weight, "examples": examples}, nil)
}

// A turnJob is a job whose workers are players: two keys count how often each example was used. Of
// the second one gradients are accumulated, and pushed every other turn. A third one, in the first
// turn of an epoch alone, is of no examples.
type turnJob struct {
	t        *testing.T
	job      *jobtest.Job
	examples int
	epochs   int
	// at is called before the pushes of a step, and between them where step is negative.
	at      func(w *turnWorker, step int)
	running sync.WaitGroup
	// mu guards workers.
	mu      sync.Mutex
	workers []*turnWorker
}

type turnWorker struct {
	*player
	j      *turnJob
	number int
	host   *faultnet.Host
	turns  map[string]turnResult
	kind   string
	err    error
}

func (j *turnJob) start(number int, cfg cluster.Config) {
	w := &turnWorker{j: j, number: number, host: cfg.Network.(*faultnet.Host), turns: map[string]turnResult{}}
	j.mu.Lock()
	j.workers = append(j.workers, w)
	j.mu.Unlock()
	j.running.Go(func() { w.err = w.run(cfg) })
}

// turnKeys have the slots from number 1 on.
var turnKeys = []string{"every", "other", "score"}

const turnBatch = 4

func (w *turnWorker) run(cfg cluster.Config) (err error) {
	ctx := w.j.t.Context()
	kv, err := joining.Join(ctx, cfg, "dist_sync", kvstore.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	w.player = play(w.j.t, kv, w.j.examples, w.j.examples, w.j.examples)
	err = kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1})
	for _, key := range turnKeys {
		err = errors.Join(err, kv.Init(ctx, key, make([]float32, w.j.examples)))
	}
	if err != nil {
		return err
	}
	var turn turnResult
	if err := w.ask(ctx, "sampler", map[string]any{"examples": w.j.examples, "batch": turnBatch, "epochs": w.j.epochs, "seed": 7}, &turn); err != nil {
		return err
	}
	return w.train(ctx, turn)
}

// train loads batches ahead as a DataLoader does, and drops them with the division.
func (w *turnWorker) train(ctx context.Context, turn turnResult) error {
	const ahead = 3
	var loaded []int64
	var from int
	var division uint64
	accumulated := make([]float32, w.j.examples)
	for {
		w.turns[fmt.Sprint(turn.Epoch, turn.Steps, turn.Kind)] = turn
		if w.kind = turn.Kind; turn.Kind == turnEnd || turn.Kind == turnRemoved {
			return nil
		}
		if turn.Kind == turnStep {
			if turn.Division != division {
				division, loaded, from = turn.Division, nil, turn.First
			}
			if turn.First+turn.Size > from+len(loaded) {
				var err error
				if loaded, err = w.indices(ctx, turn.First, ahead*turnBatch); err != nil {
					return err
				}
				from = turn.First
			}
			if turn.Step == 0 {
				// A score says nothing of examples.
				if err := w.contribute(ctx, 1, 0, turnKeys[2], 3); err != nil {
					return err
				}
			}
			if err := w.step(ctx, turn, loaded[turn.First-from:][:turn.Size], accumulated); err != nil {
				return err
			}
		}
		if err := w.ask(ctx, "turn", map[string]any{"after": turn.Number}, &turn); err != nil {
			return err
		}
	}
}

// step pushes a gradient for each turn, and an accumulated one for every other turn and the last
// one of each division.
func (w *turnWorker) step(ctx context.Context, turn turnResult, batch []int64, accumulated []float32) error {
	grad := w.slot(1)
	clear(grad)
	for _, i := range batch {
		grad[i]++
		accumulated[i]++
	}
	w.j.at(w, int(turn.Steps))
	if err := w.contribute(ctx, len(batch), len(batch), turnKeys[0], 1); err != nil {
		return err
	}
	if w.j.at(w, -int(turn.Steps)); turn.Steps%2 == 0 && turn.Left > 1 {
		return nil
	}
	copy(w.slot(2), accumulated)
	clear(accumulated)
	return w.contribute(ctx, 1, 1, turnKeys[1], 2)
}

// run runs a job to its end: the workers that end have used each example once an epoch.
func (j *turnJob) run(workers int) {
	j.t.Helper()
	j.job = jobtest.New(j.t, jobtest.Config{Workers: workers, Servers: 2, Elastic: cluster.Elastic{Enabled: true}, Lease: 2 * time.Second, Heartbeat: 500 * time.Millisecond})
	for i := range workers {
		j.start(i, j.job.WorkerConfig(i))
	}
	j.running.Wait()
	for _, w := range j.workers {
		if w.kind != turnEnd {
			continue
		}
		for i := range j.examples {
			for k, key := range turnKeys[:2] {
				if n := w.slot(1 + k)[i]; n != float32(j.epochs) {
					j.t.Errorf("worker %d: key %s: example %d was used %v times in %d epochs", w.number, key, i, n, j.epochs)
					return
				}
			}
		}
	}
	for _, a := range j.workers {
		for _, b := range j.workers {
			for at, told := range a.turns {
				other, ok := b.turns[at]
				same := func(r turnResult) string {
					return fmt.Sprint(r.Left, r.GlobalBatch, r.Joined, r.Survivor, r.Workers, r.Generation)
				}
				if ok && same(told) != same(other) {
					j.t.Errorf("turn %s: worker %d was told %+v, worker %d %+v", at, a.number, told, b.number, other)
				}
			}
		}
	}
}

// Whatever happens to the workers, every example is used once an epoch, of models whose gradients
// are accumulated as well: as far as the lost worker has pushed those.
func TestTurnsUseEveryExampleOnceOverAJoinALeaveAndALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &turnJob{t: t, examples: 100, epochs: 3}
		j.at = func(w *turnWorker, step int) {
			time.Sleep(100 * time.Millisecond)
			switch {
			case w.number == 0 && step == 2:
				j.start(3, j.job.JoinerConfig(3))
			case w.number == 1 && step == 9:
				if err := w.ask(t.Context(), "leave", map[string]any{"reason": "told to"}, nil); err != nil {
					t.Error(err)
				}
			case w.number == 2 && step == 14:
				// What it accumulated was pushed in step 13.
				w.host.Kill(false)
			}
		}
		j.run(3)
		ends := map[int]string{}
		for _, w := range j.workers {
			ends[w.number] = w.kind
			if (w.err == nil) != (w.number != 2) {
				t.Errorf("worker %d ended with error %v, want one of the lost worker 2 alone", w.number, w.err)
			}
		}
		if want := map[int]string{0: turnEnd, 1: turnRemoved, 2: turnStep, 3: turnEnd}; fmt.Sprint(ends) != fmt.Sprint(want) {
			t.Errorf("the workers ended with turns %v, want %v", ends, want)
		}
	})
}

// stores makes the stores of a job of two.
func stores(t *testing.T) []kvstore.Store {
	t.Helper()
	return jobtest.New(t, jobtest.Config{Workers: 2, Elastic: cluster.Elastic{Enabled: true}}).Stores(t, "dist_sync")
}

var oneEpoch = map[string]any{"examples": 12, "batch": 2, "epochs": 1, "seed": 1}

// A turn whose wait Python gave up, or whose answer it did not keep, is there when it asks again,
// and no example is left out.
func TestATurnThatPythonMissedComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := stores(t)
		missing, other := play(t, kv[0]), play(t, kv[1])
		var a, b, again turnResult
		for range 2 {
			if err := missing.ask(t.Context(), "sampler", oneEpoch, &a); err != nil || a.Number != 1 || a.Kind != turnStep || a.First != 0 {
				t.Fatalf("sampler: got turn %+v and error %v, want the first turn", a, err)
			}
		}
		if err := other.ask(t.Context(), "sampler", oneEpoch, &b); err != nil {
			t.Fatal(err)
		}
		given, begun := make(chan error, 1), make(chan error, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { given <- missing.ask(ctx, "turn", map[string]any{"after": 1}, nil) }()
		synctest.Wait()
		if _, err := missing.indices(t.Context(), 0, 1); !errors.Is(err, errUsage) {
			t.Errorf("indices while a turn is made: got error %v, want one of class Usage", err)
		}
		if err := missing.contribute(t.Context(), 1, 1, "w", 0); !errors.Is(err, errUsage) {
			t.Errorf("an exchange while a turn is made: got error %v, want one of class Usage", err)
		}
		cancel(errCancelled)
		if err := <-given; !errors.Is(err, errCancelled) {
			t.Fatalf("a cancelled turn: got error %v, want Cancelled", err)
		}
		go func() { begun <- other.ask(t.Context(), "turn", nil, &b) }()
		for range 2 {
			if err := missing.ask(t.Context(), "turn", map[string]any{"after": 1}, &again); err != nil || again.Number != 2 || again.First != 2 {
				t.Fatalf("the same turn again: got turn %+v and error %v, want the second turn with its examples from place 2 on", again, err)
			}
		}
		if err := <-begun; err != nil || b.Number != 2 {
			t.Errorf("the other worker: got turn %+v and error %v, want its second", b, err)
		}
		for _, after := range []uint64{0, 3} {
			if err := missing.ask(t.Context(), "turn", map[string]any{"after": after}, nil); !errors.Is(err, errUsage) {
				t.Errorf("the turn behind number %d: got error %v, want one of class Usage", after, err)
			}
		}
	})
}

// A turn is made once the exchanges of the one before have ended, and the last turn comes again.
func TestATurnWaitsForTheExchangesOfTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, err := kvstore.Create(t.Context(), "dist_sync")
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		p := play(t, kv)
		if err := p.ask(t.Context(), "sampler", map[string]any{"examples": 1, "batch": 1, "epochs": 1}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := p.s.exchanges.tracker.begin(1, false); err != nil {
			t.Fatal(err)
		}
		made := make(chan error, 1)
		go func() { made <- p.ask(t.Context(), "turn", nil, nil) }()
		synctest.Wait()
		if len(made) != 0 {
			t.Error("a turn was made while an exchange was under way")
		}
		p.s.exchanges.tracker.end(1, nil)
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var turn turnResult
			if err := p.ask(t.Context(), "turn", nil, &turn); err != nil || turn.Number != 3 || turn.Kind != turnEnd {
				t.Errorf("got turn %+v and error %v, want number 3, of kind end", turn, err)
			}
		}
	})
}

// A turn is made once the pushes have ended of which Python no longer awaits the answers.
func TestATurnWaitsForThePushesOfTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := stores(t)
		a, b := play(t, kv[0], 8), play(t, kv[1], 8)
		both := func(op string, args map[string]any) error {
			other := make(chan error, 1)
			go func() { other <- b.ask(t.Context(), op, args, nil) }()
			return errors.Join(a.ask(t.Context(), op, args, nil), <-other)
		}
		inits := make(chan error, 1)
		go func() { inits <- kv[1].Init(t.Context(), "w", make([]float32, 8)) }()
		if err := errors.Join(kv[0].Init(t.Context(), "w", make([]float32, 8)), <-inits, both("sampler", oneEpoch)); err != nil {
			t.Fatal(err)
		}
		for op := range pushes {
			if a.s.operations[op] == nil {
				t.Errorf("there is no operation %s", op)
			}
		}
		push := fmt.Sprintf(`{"id": 0, "op": "pushpull", "keys": [{"key": "w", "region": %d, "grad": 1}]}`, a.region)
		if err := a.s.startRequest(json.RawMessage(push)); err != nil {
			t.Fatal(err)
		}
		given := make(chan error, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { given <- a.ask(ctx, "turn", nil, nil) }()
		synctest.Wait()
		if n := a.s.turns.newest.number; n != 1 {
			t.Errorf("turn %d is made while a push is under way, want it behind the push", n)
		}
		cancel(errCancelled)
		if err := <-given; !errors.Is(err, errCancelled) {
			t.Errorf("a cancelled turn: got error %v, want Cancelled", err)
		}
		made := make(chan error, 1)
		go func() { made <- a.ask(t.Context(), "turn", nil, nil) }()
		if err := errors.Join(b.contribute(t.Context(), 1, 1, "w", 1), b.ask(t.Context(), "turn", nil, nil), <-made); err != nil {
			t.Error(err)
		}
		if err := both("turn", nil); err != nil || a.s.turns.newest.number != 3 {
			t.Errorf("the turn after that: got number %d and error %v, want 3", a.s.turns.newest.number, err)
		}
	})
}

// A worker that is asked to leave while it waits to be a member has a turn that says so.
func TestAJoinerThatLeavesHearsThatItWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Elastic: cluster.Elastic{Enabled: true}})
		first := play(t, job.Stores(t, "dist_sync")[0])
		if err := first.ask(t.Context(), "sampler", oneEpoch, nil); err != nil {
			t.Fatal(err)
		}
		kv, err := joining.Join(t.Context(), job.JoinerConfig(1), "dist_sync")
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		joiner := play(t, kv)
		var turn turnResult
		waited := make(chan error, 1)
		// The first worker comes to no boundary.
		go func() { waited <- joiner.ask(t.Context(), "sampler", oneEpoch, &turn) }()
		synctest.Wait()
		if _, err := leave(t.Context(), joiner.s, json.RawMessage(`{"id": 0, "reason": "SIGTERM"}`)); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; err != nil || turn.Kind != turnRemoved {
			t.Errorf("got turn %+v and error %v, want one of kind removed", turn, err)
		}
	})
}

// Turns go on while the scheduler is out of reach. A worker that it declares lost, and that gave it
// up, hears that with its next turn, however often it asks.
func TestTurnsWithoutTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Elastic: cluster.Elastic{Enabled: true}, Lease: 5 * time.Second, Heartbeat: time.Second})
		kv := job.Stores(t, "dist_sync")
		a, b := play(t, kv[0]), play(t, kv[1])
		both := func(op string, args map[string]any) error {
			other := make(chan error, 1)
			go func() { other <- b.ask(t.Context(), op, args, nil) }()
			return errors.Join(a.ask(t.Context(), op, args, nil), <-other)
		}
		if err := both("sampler", oneEpoch); err != nil {
			t.Fatal(err)
		}
		for _, from := range []string{"worker0", "worker1"} {
			job.Net.Refuse(from, "scheduler")
			job.Net.Cut(from, "scheduler")
		}
		if err := both("turn", nil); err != nil {
			t.Errorf("a turn while the scheduler is out of reach: %v", err)
		}
		job.Net.Restore("worker0", "scheduler")
		alone := make(chan error, 1)
		go func() { alone <- a.ask(t.Context(), "turn", nil, nil) }()
		time.Sleep(10 * time.Second)
		if err := <-alone; err != nil {
			t.Errorf("the turn of the worker that is left: %v", err)
		}
		for range 2 {
			if err := b.ask(t.Context(), "turn", map[string]any{"after": 2}, nil); !errors.Is(err, kvstore.ErrUnavailable) {
				t.Errorf("the turn of the worker that lost the scheduler: got error %v, want ErrUnavailable", err)
			}
		}
	})
}

// A worker that was told to end by a signal, and cannot leave alone, hears it with its next turn.
func TestAWorkerThatCannotLeaveHearsItWithItsTurn(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	p := play(t, kv)
	if err := p.ask(t.Context(), "sampler", oneEpoch, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.ask(t.Context(), "leave", map[string]any{"reason": "told to"}, nil); !errors.Is(err, kvstore.ErrNeeded) {
		t.Errorf("leave: got error %v, want ErrNeeded", err)
	}
	if err := p.ask(t.Context(), "turn", nil, nil); err != nil {
		t.Errorf("the turn after a refusal that was told: got error %v", err)
	}
	if _, err := leave(t.Context(), p.s, json.RawMessage(`{"id": 0, "reason": "SIGTERM"}`)); err != nil {
		t.Errorf("leave of which nobody awaits the answer: got error %v, want it with the turn", err)
	}
	if err := p.ask(t.Context(), "turn", nil, nil); !errors.Is(err, kvstore.ErrNeeded) {
		t.Errorf("the turn after a refusal that nobody was told: got error %v, want ErrNeeded", err)
	}
}

// A Python that pushes to ever new keys is refused before their counts take much memory. Those that
// it has go on.
func TestCountedKeysAreBounded(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	p := play(t, kv, 8)
	p.s.turns.mostCounted = 2
	for _, key := range []string{"a", "b"} {
		if err := kv.Init(t.Context(), key, make([]float32, 8)); err != nil {
			t.Fatal(err)
		}
		if err := p.contribute(t.Context(), 1, 0, key, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.contribute(t.Context(), 1, 0, "c", 1); !errors.Is(err, kvstore.ErrFull) {
		t.Errorf("a third key: got error %v, want ErrFull", err)
	}
	entries := []map[string]any{{"key": "a", "region": p.region, "grad": 1, "out": 1}, {"key": "c", "region": p.region, "grad": 1, "out": 1}}
	if err := p.ask(t.Context(), "plan", map[string]any{"entries": entries}, nil); !errors.Is(err, kvstore.ErrFull) {
		t.Errorf("a plan with a third key: got error %v, want ErrFull", err)
	}
	if err := p.contribute(t.Context(), 1, 0, "a", 1); err != nil || len(p.s.plans.keys) != 0 {
		t.Errorf("the first key: got error %v and %d planned keys, want none", err, len(p.s.plans.keys))
	}
}

func TestRequestsAboutTurnsThatCannotBeAreRefused(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	p := play(t, kv)
	refused := func(op string, args map[string]any, class error, want string) {
		t.Helper()
		if err := p.ask(t.Context(), op, args, nil); !errors.Is(err, class) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %v: got error %v, want %q of class %v", op, args, err, want, class)
		}
	}
	with := func(name string, value any) map[string]any {
		args := map[string]any{name: value}
		for n, v := range oneEpoch {
			if n != name {
				args[n] = v
			}
		}
		return args
	}
	refused("turn", nil, errUsage, "there is no sampler")
	refused("indices", map[string]any{"region": p.region, "slot": 0, "count": 1}, errUsage, "there is no turn")
	refused("sampler", with("order", "shuffled"), errUsage, "want permutation, contiguous, sequential or blocks")
	refused("sampler", with("batch", 0), errUsage, "SamplerConfig.Batch is 0")
	refused("sampler", with("seed", -1), errUsage, "arguments of a request")
	if err := p.ask(t.Context(), "sampler", with("order", "sequential"), nil); err != nil {
		t.Fatal(err)
	}
	refused("sampler", oneEpoch, kvstore.ErrDuplicateInit, "the store has a sampler already")
	refused("indices", map[string]any{"region": p.region, "slot": 0, "count": 33}, errUsage, "got a count of 33, want 0 to 32")
	refused("indices", map[string]any{"region": p.region, "slot": 1, "count": 1}, errUsage, "has no slot 1")
	refused("push_rows", map[string]any{"key": "words", "region": p.region}, kvstore.ErrUnknownKey, "is no table of this session")
	if got, err := p.indices(t.Context(), 9, 20); err != nil || fmt.Sprint(got) != "[9 10 11]" {
		t.Errorf("indices at the end of a share: got %v and error %v, want [9 10 11]", got, err)
	}
	if got, err := p.indices(t.Context(), -1, 2); err != nil || len(got) != 0 {
		t.Errorf("indices before a share: got %v and error %v, want none", got, err)
	}
}
