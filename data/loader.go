package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what Next returns after Close.
var ErrClosed = errors.New("data: loader is closed")

// A Last says what becomes of the examples at the end that do not fill a
// batch.
type Last int

const (
	// PadLast fills the last batch up by repeating its own images from its
	// first on, with the label −1, which a loss leaves out. Batch.N tells how
	// many are real. It is the default: programs compiled for a batch size
	// need full batches.
	PadLast Last = iota
	// DropLast leaves them out.
	DropLast
	// ShortLast makes the last batch shorter.
	ShortLast
)

// A LoaderConfig says what batches a Loader makes.
type LoaderConfig struct {
	// BatchSize is the number of examples in a batch, at least 1.
	BatchSize int
	// Sizes are the examples of each batch in turn, from 1 to BatchSize, where they differ;
	// when it ends, or nil, they are BatchSize. A smaller batch is padded, or with ShortLast is
	// short.
	Sizes iter.Seq[int]
	// Last is what happens at the end. Zero (the default) pads.
	Last Last
	// Augment is done to each image. Zero scales pixels to [0, 1].
	Augment Augment
	// Seed and Epoch, with the index of the example, decide what Augment
	// draws.
	Seed  uint64
	Epoch int
	// Still gives an ExampleReader no random numbers (Example.Draw is nil), as an evaluation
	// wants it.
	Still bool
	// Mix mixes the images and labels of a batch. The zero value does not.
	Mix Mix
	// BadExamples is how many damaged examples (see BadExampleError) are left out at most:
	// their pixels are 0 and their labels −1. The next one ends the reading with a
	// *BadExamplesError. Zero: the first one does.
	BadExamples int
	// Logger names each damaged example that is left out; nil: Batch.Bad alone does.
	Logger *slog.Logger
	// Prefetch is how many batches are read ahead, if PrefetchBytes has room for them. Zero
	// means 4.
	Prefetch int
	// PrefetchBytes is how much memory the batches take at most, the one of the caller
	// included; but one is read ahead in any case. Zero means 1 GiB.
	PrefetchBytes int64
	// Readers is how many goroutines read; they share each batch. Zero means GOMAXPROCS for an
	// ExampleReader, which may have to decode, and else 2.
	Readers int
	// Raw leaves pixels as they are, for a device that augments by itself: batches have Pixels
	// and Draws in place of Images. It cannot Mix.
	Raw bool
}

// A Loader reads batches ahead. Next and Close belong to one goroutine; Waited
// may be called from any.
//
// One goroutine divides the order into batches, and these into runs of examples; the readers take
// the runs in turn. The one that has read the last run of a batch mixes and pads it.
type Loader struct {
	free chan *Batch // unused buffers

	// queue is in the order of Next.
	queue chan *Batch

	cancel context.CancelFunc
	group  sync.WaitGroup

	// current is the one that the caller has.
	current *Batch

	// next was taken from the queue, and is not read yet.
	next *Batch

	bad    badBudget
	failed error
	waited atomic.Int64
}

// defaultPrefetchBytes is LoaderConfig.PrefetchBytes' default.
const defaultPrefetchBytes = 1 << 30

// NewLoader starts reading the examples of order. Close stops it.
func NewLoader(dataset Dataset, order iter.Seq[int], cfg LoaderConfig) (*Loader, error) {
	if err := cfg.validate(dataset); err != nil {
		return nil, err
	}
	cfg.setDefaults(dataset)
	shape := layoutOf(dataset, cfg)
	buffers := cfg.buffers(shape)
	run := runLength(dataset, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	l := &Loader{free: make(chan *Batch, buffers), queue: make(chan *Batch, buffers), cancel: cancel, bad: badBudget{budget: cfg.BadExamples, logger: cfg.Logger}}
	for range buffers {
		l.free <- shape.newBatch()
	}
	work := make(chan piece, buffers*((cfg.BatchSize+run-1)/run))
	d := &divider{cfg: cfg, layout: shape, run: run, order: order, free: l.free, queue: l.queue, work: work}
	d.announcer, _ = dataset.(Announcer)
	l.group.Go(func() { d.divide(ctx) })
	table := cfg.Augment.values(dataset.Shape().Channels)
	for range cfg.Readers {
		r := newReader(dataset, cfg, shape, table)
		l.group.Go(func() {
			for p := range work {
				r.do(ctx, p)
			}
		})
	}
	return l, nil
}

// validate names the first field that cannot be.
func (c *LoaderConfig) validate(dataset Dataset) error {
	switch {
	case c.BatchSize < 1:
		return fmt.Errorf("data: loader: BatchSize: got %d, want at least 1", c.BatchSize)
	case c.Last < PadLast || c.Last > ShortLast:
		return fmt.Errorf("data: loader: Last: got %d, want PadLast, DropLast or ShortLast", c.Last)
	case c.Prefetch < 0 || c.Readers < 0:
		return fmt.Errorf("data: loader: Prefetch and Readers: got %d and %d, want at least 0", c.Prefetch, c.Readers)
	case c.PrefetchBytes < 0:
		return fmt.Errorf("data: loader: PrefetchBytes: got %d, want at least 0", c.PrefetchBytes)
	case c.BadExamples < 0:
		return fmt.Errorf("data: loader: BadExamples: got %d, want at least 0", c.BadExamples)
	}
	if err := c.Augment.validate(dataset.Shape()); err != nil {
		return err
	}
	return c.Mix.validate(labelWidth(dataset), c.Raw)
}

func (c *LoaderConfig) setDefaults(dataset Dataset) {
	if c.Prefetch == 0 {
		c.Prefetch = 4
	}
	if c.PrefetchBytes == 0 {
		c.PrefetchBytes = defaultPrefetchBytes
	}
	if c.Readers == 0 {
		c.Readers = 2
		if _, ok := dataset.(ExampleReader); ok {
			c.Readers = runtime.GOMAXPROCS(0)
		}
	}
}

// buffers is how many batches there are: one is with the caller of Next.
func (c *LoaderConfig) buffers(l layout) int {
	room := c.PrefetchBytes / max(l.bytes(), 1)
	return int(max(2, min(int64(c.Prefetch)+1, room)))
}

// labelWidth is how many numbers the labels of an example have; 0: it has a class.
func labelWidth(dataset Dataset) int {
	if e, ok := dataset.(ExampleReader); ok {
		return e.LabelWidth()
	}
	return 0
}

// Next returns the next batch, or io.EOF after the last. The batch belongs to
// the caller until the next call of Next or Close. An error is final, except
// that of ctx: Next may be called again.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	if l.current != nil {
		// There is room for every buffer, so this never blocks.
		l.free <- l.current
		l.current = nil
	}
	if l.next == nil {
		b, ok, err := await(ctx, l, l.queue)
		if err != nil {
			return nil, err
		}
		if !ok {
			l.failed = io.EOF
			return nil, io.EOF
		}
		l.next = b
	}
	readErr, _, err := await(ctx, l, l.next.state.done)
	if err != nil {
		return nil, err
	}
	if readErr == nil {
		readErr = l.bad.spend(l.next.Bad)
	}
	if readErr != nil {
		l.failed = readErr
		return nil, readErr
	}
	l.current, l.next = l.next, nil
	return l.current, nil
}

// await receives from c and counts the time it took, if any.
func await[T any](ctx context.Context, l *Loader, c chan T) (v T, ok bool, err error) {
	select {
	case v, ok = <-c:
		return v, ok, nil
	default:
	}
	start := time.Now()
	defer func() { l.waited.Add(int64(time.Since(start))) }()
	select {
	case v, ok = <-c:
		return v, ok, nil
	case <-ctx.Done():
		return v, false, fmt.Errorf("data: loader: waiting for a batch: %w", context.Cause(ctx))
	}
}

// Waited returns how long calls of Next have waited in total. It stays near
// zero where reading keeps up with training.
func (l *Loader) Waited() time.Duration { return time.Duration(l.waited.Load()) }

// Len returns the number of batches that n examples make.
func (c LoaderConfig) Len(n int) int {
	if c.Last == DropLast {
		return n / c.BatchSize
	}
	return (n + c.BatchSize - 1) / c.BatchSize
}

// Close stops reading and returns when all goroutines are gone. It may be
// called more than once.
func (l *Loader) Close() error {
	l.cancel()
	l.group.Wait()
	l.failed = ErrClosed
	return nil
}
