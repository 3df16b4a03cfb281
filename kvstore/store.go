package kvstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A store is a Store over a member of a job, which may be a job of one worker within this process.
// Only where the shards are differs.
type store struct {
	*settings
	kind  string
	async bool
	node  member

	requests   *requests
	eachDevice bool // each local device's gradient is compressed by itself, before the sum
	lossless   bool // compression is refused

	placement          *placementTracker
	hostSums           *hostSums   // nil: this worker takes no part in sums within its host
	joining            atomic.Bool // this worker has joined but is not yet a member of a generation: Ready has not returned
	removed            atomic.Bool // this worker was asked to leave and is no longer a member
	warnedUncompressed atomic.Bool // warnUncompressed has logged its line
	missed             missedUpdates
	manyPushes         idleList[manyPush]
	idlePushes         idleList[densePush] // of small keys
	idlePulls          idleList[densePull]
	profiler           profiler

	compression atomic.Pointer[Compression]
	plain       *pusher // of the store's own methods: weight 1

	mu           sync.Mutex // guards the rest
	closed       bool
	keys         map[string]*key
	initialising map[string]bool // keys whose Init is under way
	optimizer    *optim.Config   // what this worker set
	warned       string          // the last line logged by warnOfMisfit
	saved        *optim.Config   // the optimizer in the file of the last Load on rank 0, until restoreRates has used it
	era          uint64          // the change since which barriers, loads and broadcasts are counted
	barriers     uint64
	loads        uint64
	broadcasts   uint64
}

var _ Store = (*store)(nil)

func newStore(set *settings, kind string, node member) *store {
	s := &store{
		settings: set, kind: kind, async: kind == "dist_async", node: node, eachDevice: kind == "device", lossless: kind == "local",
		keys: map[string]*key{}, initialising: map[string]bool{},
	}
	s.requests = newRequests(set, node, s.removed.Load, func() bool { return s.placement.movable() })
	s.plain = &pusher{s, PushOptions{Weight: 1}}
	none := Compression{}.withDefaults()
	s.compression.Store(&none)
	s.beginEra()
	if n, ok := node.(changing); ok {
		s.joining.Store(n.Joining())
	}
	if s.async {
		node.Recorder().Collect(s.missed.collect)
	}
	if n, ok := node.(interface {
		ReportWaits(func() (call, whom string, waited time.Duration))
	}); ok {
		n.ReportWaits(s.requests.watcher.longest)
	}
	s.trackPlacement() // last, because its goroutine uses all of the store
	return s
}

func (s *store) Type() string    { return s.kind }
func (s *store) Rank() int       { return int(s.node.Rank()) }
func (s *store) NumWorkers() int { return int(s.node.Membership().Workers) }
func (s *store) InitialWorkers() int {
	if n, ok := s.node.(interface{ InitialWorkers() int }); ok {
		return n.InitialWorkers()
	}
	return s.NumWorkers() // this member's job never changes
}

func (s *store) LocalSteps() int    { return s.local }
func (s *store) Generation() uint64 { return uint64(s.node.Generation()) }

func (s *store) SetCompression(ctx context.Context, c Compression) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.withDefaults()
	if s.lossless && (c.Type != "none" || c.Pull != "none") {
		return fmt.Errorf("kvstore: set compression %v: %w: a store of type %q sends nothing; use device or a dist store", c, ErrUnsupported, s.kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("kvstore: set compression %v: %w", c, ErrClosed)
	}
	s.compression.Store(&c)
	s.warnOfMisfit()
	return nil
}

// warnOfMisfit logs, on rank 0, that compression and optimizer are a bad combination. The caller
// holds mu.
func (s *store) warnOfMisfit() {
	if s.optimizer == nil || s.Rank() != 0 {
		return
	}
	if text := s.compression.Load().Warning(*s.optimizer); text != "" && text != s.warned {
		s.warned = text
		s.logger.Warn("kvstore: " + text)
	}
}

// compressionOf returns the compression of a key's pushes: none for averaged keys.
func (s *store) compressionOf(k *key) Compression {
	if k.rule == wire.RuleAverage {
		return Compression{Type: "none"}
	}
	return *s.compression.Load()
}

func (s *store) Barrier(ctx context.Context) error {
	if s.joining.Load() {
		return s.notYet("barrier")
	}
	s.mu.Lock()
	s.barriers++
	name := fmt.Sprintf("barrier/%d/%d", s.era, s.barriers)
	s.mu.Unlock()
	return s.requests.ask(ctx, "barrier", func(ctx context.Context) error { return s.node.Barrier(ctx, name) })
}

// lookup returns a key of the form that the call is for.
func (s *store) lookup(verb, name string, form uint8) (*key, error) {
	s.mu.Lock()
	k, closed := s.keys[name], s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, keyError(verb, name, ErrClosed, "")
	case k == nil:
		return nil, keyError(verb, name, ErrUnknownKey, "call Init first")
	case (k.form == wire.FormDense) == (form == wire.FormDense): // both are keys of rows, with numbered rows or with IDs
	case form == wire.FormDense:
		return nil, keyError(verb, name, ErrUnsupported, "it is a key of rows; use PushRows and PullRows")
	default:
		return nil, keyError(verb, name, ErrUnsupported, "it is a dense key; use Push and Pull")
	}
	return k, nil
}

// waitMillis is how long a server may hold a request before it must answer with the name of whom it
// waits for.
func (s *store) waitMillis() uint32 { return uint32(s.noteEvery.Milliseconds()) }

func (s *store) Close() error { return s.endMembership(true, "") }

func (s *store) Abort(cause error) error {
	if cause == nil {
		return errors.New("kvstore: abort: the cause is nil, want the error that ended this worker; to leave without an error call Close")
	}
	return s.endMembership(false, cause.Error())
}

// endMembership leaves the job: cleanly if ok, else with a reason that fails it.
func (s *store) endMembership(ok bool, reason string) error {
	if ok {
		s.awaitReplication()
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.requests.flight.refuse()
	s.mu.Unlock()
	s.placement.close()
	s.requests.flight.wait()
	s.hostSums.close()
	s.requests.close()
	s.dropProfile()
	ctx := context.Background() // the node bounds the time of a clean leave itself
	if !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, leaveTimeout)
		defer cancel()
	}
	select {
	case <-s.node.Done():
		return s.node.Close()
	default:
	}
	if err := s.node.Leave(ctx, ok, reason); err != nil {
		s.node.Close()
		return fmt.Errorf("kvstore: close: %w", err)
	}
	return nil
}

// leaveTimeout bounds the leave request of a worker that failed. It equals the default lease: later
// the scheduler declares the worker lost anyway.
const leaveTimeout = 10 * time.Second
