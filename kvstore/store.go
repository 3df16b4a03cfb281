package kvstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A store is a Store over a member of a job, which may be a job of one worker within this process.
// Only where the shards are differs.
type store struct {
	settings
	kind  string
	async bool
	node  member
	trace *trace.Recorder // the node's

	inline     bool // requests are answered at once, on the caller's goroutine
	eachDevice bool // each local device's gradient is compressed by itself, before the sum
	lossless   bool // compression is refused

	pool               *callPool
	watcher            *opWatcher
	placement          *placementTracker
	hostSums           *hostSummer // nil: this worker takes no part in sums within its host
	joining            atomic.Bool // this worker has joined but is not yet a member of a generation: Ready has not returned
	removed            atomic.Bool // this worker was asked to leave and is no longer a member
	inFlight           inFlight
	warnedUncompressed atomic.Bool  // warnUncompressed has logged its line
	lastNoted          atomic.Int64 // when a wait was last logged, on the watcher's clock
	closing            chan struct{}
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

func newStore(set settings, kind string, node member) *store {
	_, inline := node.(*inProcess)
	s := &store{
		settings: set, kind: kind, async: kind == "dist_async", node: node, trace: node.Trace(),
		inline: inline, eachDevice: kind == "device", lossless: kind == "local",
		pool: newCallPool(), closing: make(chan struct{}), keys: map[string]*key{}, initialising: map[string]bool{},
		inFlight: newInFlight(),
	}
	s.plain = &pusher{s, PushOptions{Weight: 1}}
	none := Compression{}.withDefaults()
	s.compression.Store(&none)
	s.watcher = newOpWatcher(s)
	s.lastNoted.Store(-int64(s.noteEvery))
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
		n.ReportWaits(s.watcher.longest)
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
	return s.ask(ctx, "barrier", func(ctx context.Context) error { return s.node.Barrier(ctx, name) })
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

// enter counts a call as under way, until leave. Close waits for these calls. Background calls are
// counted apart, because the program must have no call under way at a membership change, while the
// store may.
func (s *store) enter(background bool) error {
	if !s.inFlight.enter(background) {
		return ErrClosed
	}
	return nil
}

func (s *store) leave(background bool) { s.inFlight.leave(background) }

// ask runs a request to the scheduler within the store's timeout.
func (s *store) ask(ctx context.Context, verb string, question func(context.Context) error) error {
	if err := s.enter(false); err != nil {
		return fmt.Errorf("kvstore: %s: %w", verb, err)
	}
	defer s.leave(false)
	ctx, cancel := s.callContext(ctx)
	defer cancel(nil)
	err := question(ctx)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return fmt.Errorf("kvstore: %s: %w", verb, s.explain(err))
}

// callContext returns a context that also ends with the store's timeout, the end of the job, and
// Close.
func (s *store) callContext(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if err := context.Cause(ctx); err != nil {
		return ctx, cancel
	}
	ended := s.watcher.context()
	stop := context.AfterFunc(ended, func() { cancel(context.Cause(ended)) })
	var timer *time.Timer
	if s.timeout > 0 {
		timer = time.AfterFunc(s.timeout, func() { cancel(fmt.Errorf("%w: waited %v", ErrUnavailable, s.timeout)) })
	}
	return ctx, func(cause error) {
		stop()
		if timer != nil {
			timer.Stop()
		}
		cancel(cause)
	}
}

// jobEndError is why the job has ended for this node. Every call returns this error, whichever
// notices the end first.
func (s *store) jobEndError() error {
	if err := s.node.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, ErrFinished)
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
	s.inFlight.refuse()
	close(s.closing)
	s.mu.Unlock()
	s.placement.close()
	s.inFlight.wait()
	s.hostSums.close()
	s.pool.close()
	s.watcher.close()
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
