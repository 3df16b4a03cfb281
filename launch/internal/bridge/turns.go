package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/sampler"
)

// turns is the session's part in the sharing of examples: a kvstore.ElasticSampler that Python's
// requests drive.
//
// A turn is made by a goroutine of its own, whose context is the session's: all workers wait for
// each other in it, so a worker cannot take it back. Its request may be cancelled, and Python may
// be interrupted before it keeps the answer. So turns have numbers, and a request names the turn
// that it ends. One that names the turn before gets the newest one again.
type turns struct {
	mu sync.Mutex
	// begun is what the sampler was begun with; nil: it was not.
	begun *samplerArguments
	// newest is the newest turn; nil: there was none. While it is made the sampler belongs to
	// its goroutine.
	newest  *turn
	sampler *kvstore.ElasticSampler
	// joined says that this worker came to a job that ran.
	joined bool
	// used is how many examples this worker's turns have had, the one under way included.
	used uint64
	// counted has for each key how many of them its contributions have counted. It has at most
	// mostCounted keys.
	counted     map[string]*keyCount
	mostCounted int
	// told says that this worker was told to end and cannot leave alone, so that all stop. Where
	// Python knows of no stop needed is why, and the next turn fails.
	told   bool
	needed error
}

// A turn is one that is made or was.
type turn struct {
	number uint64
	// made is closed when result and err are there.
	made   chan struct{}
	result kvstore.SamplerTurn
	// cuts are those of a turn with Stop.
	cuts []sampler.Cut
	err  error
}

// isMade reports whether the turn was made.
func (n *turn) isMade() bool {
	select {
	case <-n.made:
		return true
	default:
		return false
	}
}

// samplerArguments are those of the operation sampler.
type samplerArguments struct {
	Examples int    `json:"examples"`
	Batch    int    `json:"batch"`
	Epochs   int    `json:"epochs"`
	First    int    `json:"first"`
	Seed     uint64 `json:"seed"`
	Order    string `json:"order"`
	// Cuts and Steps are of a run that goes on from a checkpoint.
	Cuts  []sampler.Cut `json:"cuts"`
	Steps uint64        `json:"steps"`
	// Stops says that Python knows turns of kind turnStop.
	Stops bool `json:"stops"`
}

// config is the sampler's configuration.
func (a *samplerArguments) config() (cfg kvstore.SamplerConfig, err error) {
	cfg = kvstore.SamplerConfig{Examples: a.Examples, Batch: a.Batch, Epochs: a.Epochs, First: a.First, Cuts: a.Cuts, Steps: a.Steps, Seed: a.Seed, Stops: a.Stops}
	if a.Order != "" {
		if cfg.Order, err = sampler.ParseOrder(a.Order); err != nil {
			return cfg, usage("bridge: sampler: order: %w", err)
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usage("bridge: sampler: %w", err)
	}
	return cfg, nil
}

// turnResult is a turn as Python gets it.
type turnResult struct {
	Number      uint64 `json:"number"`
	Kind        string `json:"kind"`
	Epoch       int    `json:"epoch"`
	Step        uint64 `json:"step"`
	Steps       uint64 `json:"steps"`
	Division    uint64 `json:"division"`
	Generation  uint64 `json:"generation"`
	Rank        int    `json:"rank"`
	Workers     int    `json:"workers"`
	Size        int    `json:"size"`
	First       int    `json:"first"`
	Share       int    `json:"share"`
	Left        int    `json:"left"`
	GlobalBatch int    `json:"global_batch"`
	Joined      bool   `json:"joined"`
	Survivor    int    `json:"survivor"`
	// Stop is why all workers stop, and Cuts what the run that goes on begins with.
	Stop string        `json:"stop,omitempty"`
	Cuts []sampler.Cut `json:"cuts,omitempty"`
}

// Kinds of turns.
const (
	turnStep    = "step"
	turnEpoch   = "epoch"
	turnEnd     = "end"
	turnRemoved = "removed"
	// turnStop: all workers write a checkpoint, if they have a place for it, and end the turn.
	turnStop = "stop"
	// turnStopped: all have.
	turnStopped = "stopped"
)

// stopReasons are the reasons of a stop as Python gets them.
var stopReasons = map[kvstore.SamplerStop]string{kvstore.StopEnd: "end", kvstore.StopCheckpoint: "checkpoint"}

// resultOf is a turn of a store for Python.
func resultOf(store kvstore.Store, n *turn, kind string) turnResult {
	t := &n.result
	return turnResult{
		Number: n.number, Kind: kind, Epoch: t.Epoch, Step: t.Step, Steps: t.Steps, Division: t.Division,
		Generation: store.Generation(), Rank: store.Rank(), Workers: store.NumWorkers(),
		Size: t.Size, First: t.First, Share: t.Share, Left: t.Left, GlobalBatch: t.GlobalBatch,
		Joined: t.Joined, Survivor: t.Survivor, Stop: stopReasons[t.Stop], Cuts: n.cuts,
	}
}

// beginSampler is the operation sampler.
func beginSampler(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var a samplerArguments
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	n, err := s.turns.begin(s, store, &a, cfg)
	if err != nil {
		return nil, err
	}
	return n.await(ctx, store)
}

// begin begins to make the sampler and its first turn. A second request that is the same has that
// turn again, as long as it is the newest.
func (t *turns) begin(s *session, store kvstore.Store, a *samplerArguments, cfg kvstore.SamplerConfig) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun != nil {
		if reflect.DeepEqual(t.begun, a) && t.newest.number == 1 {
			return t.newest, nil
		}
		return nil, &classError{kvstore.ErrDuplicateInit, errors.New("bridge: sampler: the store has a sampler already, want one in the life of a store")}
	}
	t.begun = a
	joining := store.Joining()
	return t.make(s, func(ctx context.Context) (result kvstore.SamplerTurn, err error) {
		made, err := kvstore.NewElasticSampler(ctx, store, cfg)
		if err != nil {
			return result, err
		}
		t.mu.Lock()
		if t.sampler, t.joined = made, joining; t.told {
			made.AskStop()
		}
		t.mu.Unlock()
		return made.Next(ctx)
	}), nil
}

// nextTurn is the operation turn.
func nextTurn(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		// After is the number of the turn that ends; nil: the newest one's.
		After *uint64        `json:"after"`
		Step  *stepArguments `json:"step"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	if err := s.requests.awaitPushes(ctx); err != nil {
		return nil, err
	}
	n, err := s.turns.next(s, a.After, func(ended *kvstore.SamplerTurn) { s.reports.endTurn(store, ended, a.Step) })
	if err != nil {
		return nil, err
	}
	return n.await(ctx, store)
}

// next returns the turn behind the one of the number after, and begins to make it if that one is
// the newest. ended is called with that one then, if it was a step.
func (t *turns) next(s *session, after *uint64, ended func(*kvstore.SamplerTurn)) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.newest
	switch {
	case n == nil:
		return nil, usage("bridge: turn: there is no sampler; the request sampler comes first")
	case after != nil && *after+1 == n.number:
		return n, nil
	case after != nil && (*after != n.number || !n.isMade()):
		return nil, usage("bridge: turn: got the turn behind number %d, and the newest is %d; want the number of the last turn that Python was told", *after, n.number)
	case !n.isMade() || n.err != nil || n.result.Over || n.result.Stopped:
		return n, nil
	case t.needed != nil:
		return nil, t.needed
	}
	if n.result.Left > 0 {
		ended(&n.result)
	}
	return t.make(s, t.sampler.Next), nil
}

// make begins to make a turn. mu is locked.
func (t *turns) make(s *session, next func(ctx context.Context) (kvstore.SamplerTurn, error)) *turn {
	n := &turn{number: 1, made: make(chan struct{})}
	if t.newest != nil {
		n.number = t.newest.number + 1
	}
	steps := t.newest != nil && t.newest.result.Left > 0
	t.newest = n
	s.requests.wg.Go(func() {
		defer close(n.made)
		begin := time.Now()
		// The step's exchanges end with it.
		if n.err = s.exchanges.tracker.await(s.ctx); n.err == nil {
			n.result, n.err = next(s.ctx)
		}
		if n.err == nil && n.result.Stop != kvstore.NoStop {
			n.cuts, n.err = t.cuts(s)
		}
		s.reports.agreed(time.Since(begin))
		s.reports.span(trace.Wait, begin, time.Now())
		if !steps {
			s.reports.beginSteps()
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.used += uint64(n.result.Size)
	})
	return n
}

// maxCuts bounds the cuts of a turn, in bytes of JSON: an answer is one packet.
const maxCuts = maxPacket * 3 / 4

// cuts are those of the turn that is being made. Where they are too long the epoch begins anew in the
// run that goes on.
func (t *turns) cuts(s *session) ([]sampler.Cut, error) {
	t.mu.Lock()
	made := t.sampler
	t.mu.Unlock()
	cuts, err := made.Cuts()
	if text, _ := json.Marshal(cuts); len(text) > maxCuts {
		s.log.Warn("the epoch was divided too often for its position to be told; a run that goes on from the checkpoint begins it anew", "bytes", len(text), "most", maxCuts)
		cuts = nil
	}
	return cuts, err
}

// await waits until a turn was made, and returns it for Python.
func (n *turn) await(ctx context.Context, store kvstore.Store) (any, error) {
	select {
	case <-n.made:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	switch {
	case errors.Is(n.err, kvstore.ErrRemoved):
		return resultOf(store, n, turnRemoved), nil
	case n.err != nil:
		return nil, n.err
	case n.result.Stopped:
		return resultOf(store, n, turnStopped), nil
	case n.result.Stop != kvstore.NoStop:
		return resultOf(store, n, turnStop), nil
	case n.result.Over:
		return resultOf(store, n, turnEnd), nil
	case n.result.Left == 0:
		return resultOf(store, n, turnEpoch), nil
	}
	return resultOf(store, n, turnStep), nil
}

// begunAny reports whether a sampler shares out the examples.
func (t *turns) begunAny() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest != nil
}

// position is how many steps the job has done, and whether this worker joined while it ran; 0 and
// false before the first turn.
func (t *turns) position() (steps uint64, joined bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest == nil || !t.newest.isMade() {
		return 0, false
	}
	return t.newest.result.Steps, t.joined
}

// findIndices is the operation indices.
func findIndices(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Region uint32 `json:"region"`
		Slot   int    `json:"slot"`
		First  int    `json:"first"`
		Count  int    `json:"count"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	slot, r, err := s.memory.slot(a.Region, a.Slot)
	if err != nil {
		return nil, err
	}
	defer s.memory.giveBack(r)
	list := integers(slot)
	if a.Count < 0 || a.Count > len(list) {
		return nil, usage("bridge: indices: got a count of %d, want 0 to %d: the int64 values for which the slot has room", a.Count, len(list))
	}
	count, err := s.turns.examples(a.First, list[:a.Count])
	return map[string]int{"count": count}, err
}

// examples fills list with the examples of this worker's share of the division, and returns how
// many there were.
func (t *turns) examples(first int, list []int64) (count int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest == nil || !t.newest.isMade() {
		return 0, usage("bridge: indices: there is no turn; the requests sampler and turn come first, and have to have ended")
	}
	if t.newest.err != nil {
		return 0, t.newest.err
	}
	found := t.sampler.Examples(first, make([]int, len(list)))
	for i, number := range found {
		list[i] = int64(number)
	}
	return len(found), nil
}

// integers are the int64 values that lie in a slot. Slots begin at multiples of 64 bytes.
func integers(slot []float32) []int64 {
	if len(slot) < 2 {
		return nil
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(slot))), len(slot)/2)
}
