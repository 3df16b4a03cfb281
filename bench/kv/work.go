package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A work is what each worker does: samples of passes, in each of which every key is pushed once,
// all keys concurrently.
type work struct {
	name string
	// keys has the number of values of each key.
	keys    []int
	samples int
	passes  int
	// pull says that values come back in the same trip.
	pull bool
	// whole says that one operation is a pass over all keys, not one key.
	whole bool
	// many says that one goroutine pushes all keys of a pass in one call.
	many  bool
	table *table
	norms *norms
	// update is the optimizer that the job has. nil: that of table or norms, or none.
	update *optim.Config
}

// works are those of -work. A pattern such as array/* chooses all with the same first word.
var works = []work{
	{name: "resnet18", keys: resnet18(), samples: 40, passes: 1, pull: true, whole: true},
	{name: "latency", keys: []int{256}, samples: 20, passes: 100, pull: true},
	{name: "small", keys: same(64, 256), samples: 20, passes: 40},
	{name: "many/small", keys: same(64, 256), samples: 20, passes: 40, many: true},
	{name: "many/resnet18", keys: resnet18(), samples: 40, passes: 1, pull: true, whole: true, many: true},
	{name: "many/keys62", keys: same(62, 256), samples: 20, passes: 50, pull: true, whole: true, many: true},
	{name: "push/bytes=65536", keys: same(16, 16<<10), samples: 20, passes: 16},
	{name: "array/bytes=65536", keys: same(16, 16<<10), samples: 20, passes: 16, pull: true},
	{name: "array/bytes=262144", keys: same(16, 64<<10), samples: 20, passes: 8, pull: true},
	{name: "array/bytes=1048576", keys: same(8, 256<<10), samples: 20, passes: 8, pull: true},
	{name: "array/bytes=4194304", keys: same(4, 1<<20), samples: 20, passes: 4, pull: true},
	{name: "array/bytes=16777216", keys: same(2, 4<<20), samples: 20, passes: 2, pull: true},
	{name: "rows/zipf-sgd", samples: 20, passes: 10, whole: true, table: &table{rows: 1 << 20, zipf: 1.05, optimizer: "sgd"}},
	{name: "rows/zipf-adagrad", samples: 20, passes: 10, whole: true, table: &table{rows: 1 << 20, zipf: 1.05, optimizer: "adagrad"}},
	{name: "rows/large-sgd", samples: 20, passes: 10, whole: true, table: &table{rows: 10_000_000, zipf: 1.05, optimizer: "sgd"}},
	{name: "rows/open-sgd", samples: 20, passes: 10, whole: true, table: &table{rows: 1 << 20, open: true, zipf: 1.05, optimizer: "sgd"}},
	{name: "rows/uniform-sgd", samples: 20, passes: 10, whole: true, table: &table{rows: 1 << 20, optimizer: "sgd"}},
	{name: "rows/uniform-adagrad", samples: 20, passes: 10, whole: true, table: &table{rows: 1 << 20, optimizer: "adagrad"}},
	{name: "norms/sgd", keys: resnet18(), samples: 10, passes: normRounds, pull: true, whole: true, norms: &norms{optimizer: "sgd"}},
	{name: "norms/sgd-micro", keys: resnet18(), samples: 10, passes: normRounds, pull: true, whole: true, norms: &norms{optimizer: "sgd", micro: 2}},
	{name: "norms/adam", keys: resnet18(), samples: 10, passes: normRounds, pull: true, whole: true, norms: &norms{optimizer: "adam"}},
	{name: "clip/none", keys: resnet18(), samples: 40, passes: 1, pull: true, whole: true, update: &optim.Config{Name: "sgd", LearningRate: 1e-9}},
	{name: "clip/global", keys: resnet18(), samples: 40, passes: 1, pull: true, whole: true, update: &optim.Config{Name: "sgd", LearningRate: 1e-9, ClipGlobalNorm: 1}},
}

// A norms is what a work of rounds whose gradients' norms are measured compares: samples of such
// rounds and of plain ones take turns.
type norms struct {
	optimizer string
	// micro is how many micro-batches a gradient has; 0: one.
	micro int
}

// normRounds is the rounds of a sample: with one worker and one micro-batch, one in so many is
// measured.
const normRounds = 32

// pusher returns what pushes a sample's rounds.
func (n *norms) pusher(kv kvstore.Store, measured bool) kvstore.Pusher {
	step := kvstore.PushOptions{Weight: 1, Measure: measured}
	if n.micro > 1 {
		step.Micro = func(string) kvstore.Micro { return kvstore.Micro{Count: n.micro, Sqr: 1} }
	}
	return kv.Step(step)
}

// optimizer names the optimizer that the work's job has, or none.
func (w *work) optimizer() string {
	switch {
	case w.table != nil:
		return w.table.optimizer
	case w.norms != nil:
		return w.norms.optimizer
	case w.update != nil && w.update.ClipGlobalNorm > 0:
		return w.update.Name + ", clipped"
	case w.update != nil:
		return w.update.Name
	}
	return ""
}

func same(keys, values int) []int {
	sizes := make([]int, keys)
	for i := range sizes {
		sizes[i] = values
	}
	return sizes
}

// resnet18 returns the sizes of ResNet18's 62 arrays with 10 classes and the stem of ImageNet,
// first layer first: 11,181,642 values.
func resnet18() []int {
	sizes := []int{64 * 3 * 49, 64, 64}
	in := 64
	for stage, out := range []int{64, 128, 256, 512} {
		for block := range 2 {
			sizes = append(sizes, out*in*9, out, out, out*out*9, out, out)
			if stage > 0 && block == 0 {
				// These are the shortcut's.
				sizes = append(sizes, out*in, out, out)
			}
			in = out
		}
	}
	return append(sizes, 10*512, 10)
}

func workNames() []string {
	names := make([]string, len(works))
	for i := range works {
		names[i] = works[i].name
	}
	return names
}

func findWork(name string) (work, error) {
	for _, w := range append(works[:len(works):len(works)], stageWorks()...) {
		if w.name == name {
			return w, nil
		}
	}
	return work{}, fmt.Errorf("work %q: not known", name)
}

// scaled returns the work of a run with so many times the samples. There are three at least: with
// fewer it is passes that there are less of, but for norms, which are measured once in so many.
func (w work) scaled(scale float64) work {
	const least = 3
	samples := float64(w.samples) * scale
	w.samples = max(int(samples), least)
	if samples < least && w.norms == nil {
		w.passes = max(int(float64(w.passes)*samples/least), 1)
	}
	return w
}

// operations returns how many operations a sample is.
func (w *work) operations() int {
	if w.whole {
		return w.passes
	}
	return w.passes * len(w.keys)
}

// bytes returns what one worker sends and receives in a sample.
func (w *work) bytes() int64 {
	if w.table != nil {
		// These are the bytes as the caller sees them; fewer are sent.
		return 2 * 4 * rowLen * batchRows * int64(w.passes)
	}
	total := int64(0)
	for _, n := range w.keys {
		total += 4 * int64(n)
	}
	if w.pull {
		total *= 2
	}
	return total * int64(w.passes)
}

// A player is one worker at a work: a goroutine for each key, as a training step has them.
type player struct {
	work
	kv    kvstore.Store
	by    kvstore.Pusher
	start []chan struct{}
	// done waits for the end of a sample.
	done  sync.WaitGroup
	ended sync.WaitGroup
	begun time.Time
	// first is the time from begun until the first key's value was there.
	first time.Duration

	// mu guards err.
	mu  sync.Mutex
	err error
}

// newPlayer initialises the work's keys.
func newPlayer(ctx context.Context, kv kvstore.Store, w work) (*player, error) {
	p := &player{work: w, kv: kv, by: kv}
	if w.norms != nil {
		if err := kv.SetOptimizer(ctx, optim.Config{Name: w.norms.optimizer, LearningRate: 1e-9}); err != nil {
			return nil, err
		}
	}
	if w.update != nil {
		if err := kv.SetOptimizer(ctx, *w.update); err != nil {
			return nil, err
		}
		if w.update.ClipGlobalNorm > 0 {
			p.playClipping(ctx)
		}
	}
	if w.table != nil {
		if err := p.playTable(ctx); err != nil {
			p.close()
			return nil, err
		}
		return p, nil
	}
	var entries []kvstore.Entry
	for i, n := range w.keys {
		key := fmt.Sprintf("%s/%d", w.name, i)
		if err := kv.Init(ctx, key, make([]float32, n)); err != nil {
			p.close()
			return nil, err
		}
		grads, outs := [][]float32{kvstore.Float32s(n)}, [][]float32{kvstore.Float32s(n)}
		for j := range grads[0] {
			grads[0][j] = float32(j%7) - 3
		}
		if w.many {
			entries = append(entries, kvstore.Entry{Key: key, Grads: grads, Outs: outs})
			continue
		}
		p.playKey(ctx, kvstore.Entry{Key: key, Grads: grads, Outs: outs}, i == 0)
	}
	if w.many {
		p.playMany(ctx, entries)
	}
	return p, nil
}

// playKey starts a goroutine that pushes one key. The first key's says when its value was there.
func (p *player) playKey(ctx context.Context, e kvstore.Entry, first bool) {
	start := make(chan struct{}, 1)
	p.start = append(p.start, start)
	p.ended.Go(func() {
		for range start {
			for range p.passes {
				var err error
				if p.pull {
					err = p.by.PushPull(ctx, e.Key, e.Grads, e.Outs)
				} else {
					err = p.by.Push(ctx, e.Key, e.Grads...)
				}
				p.note(err)
			}
			if first {
				p.first = time.Since(p.begun)
			}
			p.done.Done()
		}
	})
}

// playClipping starts a goroutine that clips each pass by its norm over all keys.
func (p *player) playClipping(ctx context.Context) {
	var keys []string
	for i := range p.keys {
		keys = append(keys, fmt.Sprintf("%s/%d", p.name, i))
	}
	start := make(chan struct{}, 1)
	p.start = append(p.start, start)
	p.ended.Go(func() {
		for range start {
			for range p.passes {
				_, err := p.kv.ClipGlobalNorm(ctx, keys...)
				p.note(err)
			}
			p.done.Done()
		}
	})
}

// playMany makes the player one that pushes all keys in one call.
func (p *player) playMany(ctx context.Context, entries []kvstore.Entry) {
	call := p.by.PushPullMany
	if !p.pull {
		call = p.by.PushMany
		for i := range entries {
			entries[i].Outs = nil
		}
	}
	start := make(chan struct{}, 1)
	p.start = append(p.start, start)
	p.ended.Go(func() {
		for range start {
			for range p.passes {
				p.note(call(ctx, entries))
			}
			p.first = time.Since(p.begun)
			p.done.Done()
		}
	})
}

func (p *player) note(err error) {
	if err != nil {
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
	}
}

// sample plays one sample: the last key begins, as the last layer's gradient is there first.
func (p *player) sample() (took, first time.Duration, err error) {
	p.done.Add(len(p.start))
	p.begun = time.Now()
	for i := len(p.start) - 1; i >= 0; i-- {
		p.start[i] <- struct{}{}
	}
	p.done.Wait()
	took = time.Since(p.begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	return took, p.first, p.err
}

func (p *player) close() {
	for _, start := range p.start {
		close(start)
	}
	p.ended.Wait()
}
