package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
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
	// Sizes are the examples of each batch in turn, from 1 to BatchSize, where they differ; when it ends, or nil, they are BatchSize. A
	// smaller batch is padded, or with ShortLast is short.
	Sizes iter.Seq[int]
	// Last is what happens at the end. Zero (the default) pads.
	Last Last
	// Augment is done to each image. Zero scales pixels to [0, 1].
	Augment Augment
	// Seed and Epoch, with the index of the example, decide what Augment
	// draws.
	Seed  uint64
	Epoch int
	// Prefetch is how many batches are read ahead. Zero means 4.
	Prefetch int
	// Readers is how many goroutines read. Zero means 2.
	Readers int
	// Raw leaves pixels as they are, for a device that augments by itself: batches have Pixels and Draws in place of Images.
	Raw bool
}

// A Batch is some examples, ready for a network.
type Batch struct {
	// Images is (BatchSize, C, H, W), row-major; nil from a Raw loader.
	Images []float32
	// Pixels are the same images as they were read, and Draws what was drawn for each; from a Raw loader alone.
	Pixels []uint8
	Draws  []Draw
	// Labels and Indices belong to the images; Indices are those of the
	// data set. The label of an image that pads the batch is −1.
	Labels  []int32
	Indices []int
	// N is the number of examples that count: the first N. It is below
	// len(Labels) in a padded batch only.
	N int

	done chan error
}

// A Loader reads batches ahead. Next and Close belong to one goroutine; Waited
// may be called from any.
type Loader struct {
	cfg     LoaderConfig
	dataset Dataset
	order   iter.Seq[int]
	table   [][256]float32

	free   chan *Batch // unused buffers
	work   chan *Batch // to be read
	queue  chan *Batch // in the order of Next
	cancel context.CancelFunc
	group  sync.WaitGroup

	current *Batch // with the caller
	next    *Batch // taken from the queue, not yet read
	failed  error
	waited  atomic.Int64
}

// NewLoader starts reading the examples of order. Close stops it.
func NewLoader(dataset Dataset, order iter.Seq[int], cfg LoaderConfig) (*Loader, error) {
	if cfg.BatchSize < 1 {
		return nil, fmt.Errorf("data: loader: BatchSize: got %d, want at least 1", cfg.BatchSize)
	}
	if cfg.Last < PadLast || cfg.Last > ShortLast {
		return nil, fmt.Errorf("data: loader: Last: got %d, want PadLast, DropLast or ShortLast", cfg.Last)
	}
	if cfg.Prefetch < 0 || cfg.Readers < 0 {
		return nil, fmt.Errorf("data: loader: Prefetch and Readers: got %d and %d, want at least 0", cfg.Prefetch, cfg.Readers)
	}
	shape := dataset.Shape()
	if err := cfg.Augment.validate(shape); err != nil {
		return nil, err
	}
	if cfg.Prefetch == 0 {
		cfg.Prefetch = 4
	}
	if cfg.Readers == 0 {
		cfg.Readers = 2
	}
	buffers := cfg.Prefetch + 1 // one is with the caller of Next
	ctx, cancel := context.WithCancel(context.Background())
	l := &Loader{
		cfg: cfg, dataset: dataset, order: order, table: cfg.Augment.values(shape.Channels),
		free: make(chan *Batch, buffers), work: make(chan *Batch, buffers), queue: make(chan *Batch, buffers),
		cancel: cancel,
	}
	for range buffers {
		b := &Batch{
			Labels:  make([]int32, cfg.BatchSize),
			Indices: make([]int, cfg.BatchSize),
			done:    make(chan error, 1),
		}
		if cfg.Raw {
			b.Pixels, b.Draws = make([]uint8, cfg.BatchSize*shape.Size()), make([]Draw, cfg.BatchSize)
		} else {
			b.Images = make([]float32, cfg.BatchSize*shape.Size())
		}
		l.free <- b
	}
	l.group.Go(func() { l.divide(ctx) })
	for range cfg.Readers {
		l.group.Go(func() { l.read(ctx) })
	}
	return l, nil
}

// divide cuts the order into batches and hands them to the readers.
func (l *Loader) divide(ctx context.Context) {
	defer close(l.queue)
	defer close(l.work)
	size, ended := l.sizes()
	defer ended()
	var b *Batch
	full := 0 // examples of b when it is full
	hand := func() {
		l.queue <- b // never blocks: there is room for every buffer
		l.work <- b
		b = nil
	}
	for i := range l.order {
		if ctx.Err() != nil {
			return
		}
		if b == nil {
			select {
			case b = <-l.free:
				b.N, full = 0, size()
				l.lengthen(b)
			case <-ctx.Done():
				return
			}
		}
		b.Indices[b.N] = i
		b.N++
		if b.N == full {
			hand()
		}
	}
	if b != nil && l.cfg.Last != DropLast {
		hand()
	}
}

// sizes returns how to find the size of each batch in turn, and what ends that.
func (l *Loader) sizes() (size func() int, ended func()) {
	if l.cfg.Sizes == nil {
		return func() int { return l.cfg.BatchSize }, func() {}
	}
	next, ended := iter.Pull(l.cfg.Sizes)
	return func() int {
		if n, ok := next(); ok {
			return min(max(n, 1), l.cfg.BatchSize)
		}
		return l.cfg.BatchSize
	}, ended
}

// lengthen undoes what ShortLast did to a buffer.
func (l *Loader) lengthen(b *Batch) {
	n := l.cfg.BatchSize
	b.Labels, b.Indices = b.Labels[:n], b.Indices[:n]
	if size := l.dataset.Shape().Size(); l.cfg.Raw {
		b.Pixels, b.Draws = b.Pixels[:n*size], b.Draws[:n]
	} else {
		b.Images = b.Images[:n*size]
	}
}

// read fills batches until there are no more.
func (l *Loader) read(ctx context.Context) {
	shape := l.dataset.Shape()
	a := &augmenter{Augment: l.cfg.Augment, shape: shape, table: l.table}
	pixels := make([]uint8, shape.Size())
	for b := range l.work {
		b.done <- l.fill(ctx, b, a, pixels)
	}
}

func (l *Loader) fill(ctx context.Context, b *Batch, a *augmenter, pixels []uint8) error {
	size := len(pixels)
	for k, i := range b.Indices[:b.N] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if l.cfg.Raw {
			pixels = b.Pixels[k*size : (k+1)*size]
		}
		label, err := l.dataset.Read(i, pixels)
		if err != nil {
			return fmt.Errorf("data: loader: example %d: %w", i, err)
		}
		b.Labels[k] = int32(label)
		draw := a.draw(l.cfg.Seed, l.cfg.Epoch, i)
		if l.cfg.Raw {
			b.Draws[k] = draw
		} else {
			a.image(b.Images[k*size:(k+1)*size], pixels, draw)
		}
	}
	if l.cfg.Last == ShortLast {
		b.Labels, b.Indices = b.Labels[:b.N], b.Indices[:b.N]
		if l.cfg.Raw {
			b.Pixels, b.Draws = b.Pixels[:b.N*size], b.Draws[:b.N]
		} else {
			b.Images = b.Images[:b.N*size]
		}
		return nil
	}
	for k := b.N; k < l.cfg.BatchSize; k++ {
		b.Labels[k], b.Indices[k] = -1, b.Indices[k-b.N]
		if l.cfg.Raw {
			copy(b.Pixels[k*size:(k+1)*size], b.Pixels[(k-b.N)*size:])
			b.Draws[k] = b.Draws[k-b.N]
		} else {
			copy(b.Images[k*size:(k+1)*size], b.Images[(k-b.N)*size:])
		}
	}
	return nil
}

// Next returns the next batch, or io.EOF after the last. The batch belongs to
// the caller until the next call of Next or Close. An error is final, except
// that of ctx: Next may be called again.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	if l.current != nil {
		l.free <- l.current // never blocks: there is room for every buffer
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
	readErr, _, err := await(ctx, l, l.next.done)
	if err != nil {
		return nil, err
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
