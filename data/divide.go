package data

import (
	"context"
	"iter"
	"slices"
)

// A piece is a run of the examples of a batch, which one reader reads.
type piece struct {
	batch *Batch

	// first and end are places in the batch.
	first, end int
}

// runLength is how many examples a piece has: one where reading an example may mean decoding it, so
// that all readers share a batch, and few otherwise.
func runLength(dataset Dataset, cfg LoaderConfig) int {
	const cheap, mostPieces = 16, 256
	if _, ok := dataset.(ExampleReader); ok {
		return (cfg.BatchSize + mostPieces - 1) / mostPieces
	}
	return max(1, min(cheap, cfg.BatchSize/cfg.Readers), cfg.BatchSize/mostPieces)
}

// A divider divides the order of examples into batches.
type divider struct {
	cfg    LoaderConfig
	layout layout
	run    int
	order  iter.Seq[int]

	// announcer is nil if the data set reads nothing ahead.
	announcer Announcer

	free  <-chan *Batch
	queue chan<- *Batch
	work  chan<- piece
}

// divide hands batches to the readers until the order or ctx ends.
func (d *divider) divide(ctx context.Context) {
	defer close(d.queue)
	defer close(d.work)
	size, ended := d.sizes()
	defer ended()
	var b *Batch

	// full is how many examples b has when it is full.
	full := 0
	for i := range d.order {
		if ctx.Err() != nil {
			return
		}
		if b == nil {
			select {
			case b = <-d.free:
				b.N, full = 0, size()
				d.layout.resize(b, d.cfg.BatchSize)
			case <-ctx.Done():
				return
			}
		}
		b.Indices[b.N] = i
		b.N++
		if b.N == full {
			d.hand(ctx, b)
			b = nil
		}
	}
	if b != nil && d.cfg.Last != DropLast {
		d.hand(ctx, b)
	}
}

// hand gives a batch to the readers. It never blocks: there is room for every buffer and its
// pieces.
func (d *divider) hand(ctx context.Context, b *Batch) {
	if d.announcer != nil {
		d.announcer.Announce(ctx, slices.Clone(b.Indices[:b.N]))
	}
	b.state.begin((b.N + d.run - 1) / d.run)
	d.queue <- b
	for first := 0; first < b.N; first += d.run {
		d.work <- piece{b, first, min(first+d.run, b.N)}
	}
}

// sizes returns how to find the size of each batch in turn, and what ends that.
func (d *divider) sizes() (size func() int, ended func()) {
	if d.cfg.Sizes == nil {
		return func() int { return d.cfg.BatchSize }, func() {}
	}
	next, ended := iter.Pull(d.cfg.Sizes)
	return func() int {
		if n, ok := next(); ok {
			return min(max(n, 1), d.cfg.BatchSize)
		}
		return d.cfg.BatchSize
	}, ended
}
