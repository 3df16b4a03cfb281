package mds

import (
	"context"
	"errors"
	"sync"

	"github.com/paragon-train/paragon/data/internal/source"
)

// A wholeShard is a shard that was decompressed.
type wholeShard struct {
	data    []byte
	offsets []uint32
}

// wholeShards keeps the shards that were used last. Readers that want a shard at the same time wait
// for one of them to load it.
type wholeShards struct {
	limit int64

	mu      sync.Mutex // guards the rest
	entries map[int]*wholeEntry
	clock   int64
	bytes   int64
}

// A wholeEntry is one shard, or the loading of it.
type wholeEntry struct {
	// done is closed when shard or err is set.
	done chan struct{}

	shard *wholeShard
	err   error
	used  int64
}

func newWholeShards(limit int64) *wholeShards {
	return &wholeShards{limit: limit, entries: make(map[int]*wholeEntry)}
}

// get returns shard k, loaded if need be. A shard whose data are at fault stays so; other errors
// are tried again.
func (w *wholeShards) get(ctx context.Context, k int, load func() (*wholeShard, error)) (*wholeShard, error) {
	for {
		w.mu.Lock()
		w.clock++
		e := w.entries[k]
		if e == nil {
			e = &wholeEntry{done: make(chan struct{}), used: w.clock}
			w.entries[k] = e
			w.mu.Unlock()
			w.fill(k, e, load)
			return e.shard, e.err
		}
		e.used = w.clock
		w.mu.Unlock()
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		var fault source.Fault
		if e.err == nil || errors.As(e.err, &fault) {
			return e.shard, e.err
		}
		// The one who loaded it failed by the storage, or had no time left: try it oneself.
		// fill has removed the entry.
	}
}

// fill loads a shard into its entry, and forgets others until the memory is within its limit.
func (w *wholeShards) fill(k int, e *wholeEntry, load func() (*wholeShard, error)) {
	shard, err := load()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer close(e.done)
	e.shard, e.err = shard, err
	if e.err != nil {
		var fault source.Fault
		if !errors.As(e.err, &fault) {
			delete(w.entries, k)
		}
		return
	}
	w.bytes += e.shard.size()
	for w.bytes > w.limit {
		oldest := -1
		for n, other := range w.entries {
			if n != k && other.shard != nil && (oldest < 0 || other.used < w.entries[oldest].used) {
				oldest = n
			}
		}
		if oldest < 0 {
			break
		}
		w.bytes -= w.entries[oldest].shard.size()
		delete(w.entries, oldest)
	}
}

func (s *wholeShard) size() int64 { return int64(len(s.data)) + 4*int64(len(s.offsets)) }
