package simulate

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// A contribution is one worker's gradient for one key and what the worker learnt of its fate.
type contribution struct {
	// who is the worker's host.
	who string
	// step is the job's, from 0.
	step int
	grad []float32
	// held says that Push returned: the server has the gradient.
	held bool
	// value is what the round ended with; nil: the worker did not learn it.
	value []float32
	// at is when the worker learnt the value.
	at time.Time
}

// A ledger holds all contributions of a job, by key.
type ledger struct {
	mu   sync.Mutex
	keys map[string][]*contribution
	// next is the next step, by worker and key.
	next map[string]int
}

func newLedger() *ledger {
	return &ledger{keys: map[string][]*contribution{}, next: map[string]int{}}
}

// own says that a key is the runtime's own, not the program's.
func own(key string) bool { return strings.HasPrefix(key, "paragon/") }

// begin notes a contribution. done is how many steps of the job were done when the worker began to
// count.
func (l *ledger) begin(who, key string, grad []float32, done int) *contribution {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &contribution{who: who, step: done + l.next[who+" "+key], grad: slices.Clone(grad)}
	l.next[who+" "+key]++
	l.keys[key] = append(l.keys[key], c)
	return c
}

func (l *ledger) end(c *contribution, value []float32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.held, c.value, c.at = true, slices.Clone(value), time.Now()
}

func (l *ledger) hold(c *contribution) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.held = true
}

// A recorder is a store that keeps a ledger of one worker's pushes.
type recorder struct {
	kvstore.Store
	who    string
	ledger *ledger
	// alter, of tests of the checks, says what is pushed in place of what the ledger says.
	alter func(ctx context.Context, key string, c *contribution) []float32

	mu sync.Mutex
	// open has, by key, what was pushed and not pulled yet.
	open map[string]*contribution
	// done is how many steps of the job were done when this worker began to count; -1: not known
	// yet.
	done int
}

func newRecorder(s kvstore.Store, who string, l *ledger) *recorder {
	return &recorder{Store: s, who: who, ledger: l, open: map[string]*contribution{}, done: -1}
}

func (r *recorder) before() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done < 0 {
		r.done = int(r.Division().Steps)
	}
	return r.done
}

func (r *recorder) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return r.pushPull(ctx, r.Store, key, grads, outs)
}

func (r *recorder) Weighted(weight float32, counted bool) kvstore.Pusher {
	return recordingPusher{r.Store.Weighted(weight, counted), r}
}

func (r *recorder) Step(s kvstore.PushOptions) kvstore.Pusher {
	return recordingPusher{r.Store.Step(s), r}
}

// A recordingPusher is a recorder's, for a step.
type recordingPusher struct {
	kvstore.Pusher
	r *recorder
}

func (p recordingPusher) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return p.r.pushPull(ctx, p.Pusher, key, grads, outs)
}

// pushPull notes the gradient before it is pushed and the value after it was pulled: what is pushed
// and never answered is in the ledger, too.
func (r *recorder) pushPull(ctx context.Context, by kvstore.Pusher, key string, grads, outs [][]float32) error {
	if own(key) {
		return by.PushPull(ctx, key, grads, outs)
	}
	c := r.ledger.begin(r.who, key, grads[0], r.before())
	err := by.PushPull(ctx, key, [][]float32{r.sent(ctx, key, c)}, outs)
	if err == nil {
		r.ledger.end(c, outs[0])
	}
	return err
}

func (p recordingPusher) Push(ctx context.Context, key string, grads ...[]float32) error {
	return p.r.push(ctx, p.Pusher, key, grads...)
}

func (r *recorder) Push(ctx context.Context, key string, grads ...[]float32) error {
	return r.push(ctx, r.Store, key, grads...)
}

func (r *recorder) push(ctx context.Context, by kvstore.Pusher, key string, grads ...[]float32) error {
	c := r.ledger.begin(r.who, key, grads[0], r.before())
	err := by.Push(ctx, key, r.sent(ctx, key, c))
	if err == nil {
		r.ledger.hold(c)
		r.mu.Lock()
		r.open[key] = c
		r.mu.Unlock()
	}
	return err
}

func (r *recorder) Pull(ctx context.Context, key string, outs ...[]float32) error {
	err := r.Store.Pull(ctx, key, outs...)
	r.mu.Lock()
	c := r.open[key]
	delete(r.open, key)
	r.mu.Unlock()
	if err == nil && c != nil {
		r.ledger.end(c, outs[0])
	}
	return err
}

func (r *recorder) sent(ctx context.Context, key string, c *contribution) []float32 {
	if r.alter != nil {
		return r.alter(ctx, key, c)
	}
	return c.grad
}
