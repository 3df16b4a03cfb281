package table

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// A Cache keeps decoded blocks of one source in memory, those that were used last. It never holds
// more bytes than its limit, with what is being decoded: a reader waits for room. Its methods may
// be called from several goroutines at once; two that want one block decode it once.
type Cache struct {
	source  Source
	columns []int
	limit   int64

	mu sync.Mutex // guards what is below
	// used is the bytes of blocks that are here, and what blocks under way are expected to
	// take.
	used    int64
	entries map[int]*entry

	// recent has each *entry that is decoded, the last used in front.
	recent list.List

	// room is closed and made anew when a block has been decoded or given up.
	room    chan struct{}
	decoded int
}

type entry struct {
	number int
	bytes  int64
	place  *list.Element
	// done is closed when block or err is set.
	done  chan struct{}
	block *Block
	err   error
}

// NewCache makes a cache for the chosen columns of a source.
func NewCache(s Source, columns []int, limit int64) *Cache {
	return &Cache{source: s, columns: columns, limit: limit, entries: make(map[int]*entry), room: make(chan struct{})}
}

// Limit is the most bytes that the blocks take.
func (c *Cache) Limit() int64 { return c.limit }

// Decoded is how many times a block was decoded.
func (c *Cache) Decoded() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decoded
}

// Block returns a block, which the caller must not change.
func (c *Cache) Block(ctx context.Context, number int) (*Block, error) {
	for {
		c.mu.Lock()
		e := c.entries[number]
		if e == nil {
			e = &entry{number: number, done: make(chan struct{})}
			c.entries[number] = e
			c.mu.Unlock()
			c.decode(ctx, e)
			return e.block, e.err
		}
		if e.place != nil {
			c.recent.MoveToFront(e.place)
			c.mu.Unlock()
			return e.block, nil
		}
		c.mu.Unlock()
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch {
		case e.err == nil:
			return e.block, nil
		case ctx.Err() == nil && (errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded)):
			// The reader that was decoding it gave up, which is no reason for this one
			// to.
		default:
			return nil, e.err
		}
	}
}

// decode reads the block of an entry that the caller has put among the entries.
func (c *Cache) decode(ctx context.Context, e *entry) {
	e.bytes = min(c.source.Size(e.number, c.columns), c.limit)
	if e.err = c.reserve(ctx, e.bytes); e.err == nil {
		e.block, e.err = c.source.ReadBlock(ctx, e.number, c.columns, c.limit)
	} else {
		e.bytes = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= e.bytes
	if e.err == nil {
		c.decoded++
		e.bytes = e.block.Bytes()
		c.evict(e.bytes)
		c.used += e.bytes
		e.place = c.recent.PushFront(e)
	} else {
		delete(c.entries, e.number)
	}
	close(e.done)
	close(c.room)
	c.room = make(chan struct{})
}

// evict drops the blocks that were not used for the longest time until so many bytes fit. The
// caller holds mu.
func (c *Cache) evict(bytes int64) {
	for c.used+bytes > c.limit && c.recent.Len() > 0 {
		last := c.recent.Remove(c.recent.Back()).(*entry)
		c.used -= last.bytes
		delete(c.entries, last.number)
	}
}

// reserve waits until so many bytes are free. Those that it waits for are being decoded.
func (c *Cache) reserve(ctx context.Context, bytes int64) error {
	for {
		c.mu.Lock()
		c.evict(bytes)
		if c.used+bytes <= c.limit {
			c.used += bytes
			c.mu.Unlock()
			return nil
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
