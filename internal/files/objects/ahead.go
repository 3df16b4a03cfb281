package objects

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
)

// An AheadConfig bounds what is read ahead.
type AheadConfig struct {
	// Bytes bounds the memory of what is read ahead; 0 means 256 MiB.
	Bytes int64
	// Gap is the longest gap between two ranges of an object that are read by one request; 0
	// means 128 KiB, below 0 that they touch. All gaps of a request together are at most as
	// long as what is wanted of it, so that small ranges far from each other do not fetch
	// mostly what nobody reads.
	Gap int64
	// Requests bounds the requests under way; 0 means 64.
	Requests int
	// Longest bounds the bytes of a request for several ranges; 0 means 4 MiB.
	Longest int64
}

func (c AheadConfig) withDefaults() AheadConfig {
	c.Bytes = cmp.Or(c.Bytes, 256<<20)
	c.Gap = max(0, cmp.Or(c.Gap, 128<<10))
	c.Requests = cmp.Or(c.Requests, 64)
	c.Longest = min(cmp.Or(c.Longest, 4<<20), c.Bytes)
	return c
}

// An Ahead is a Store over another one that reads ranges before they are asked for.
//
// Announce says which ranges will be read. ReadRange of an announced range, of exactly these bytes,
// comes from memory, or waits for the request that is under way. A range whose request has not
// begun, and one that was not announced, is read by the caller itself: so nobody waits for memory,
// whatever the order of reads, and however small the bound.
//
// The memory of a request is free again when each of its ranges was read as often as it was
// announced, or the context of its Announce has ended.
type Ahead struct {
	store Store
	cfg   AheadConfig

	// ctx is the context of all requests. It ends with Close.
	ctx context.Context

	stop context.CancelFunc

	// ended waits for the requests that are under way.
	ended sync.WaitGroup

	// mu guards the fields below.
	mu sync.Mutex

	ranges map[Range]*aheadRange

	// queue has the requests that have not begun, in their order.
	queue []*aheadRequest

	// bytes is the memory of the requests that have begun and were not freed.
	bytes int64

	running int
}

// An aheadRange is a range that was announced and not read yet.
type aheadRange struct {
	Range
	request *aheadRequest
	// announced has the group of each announcement that is not read, in order.
	announced []*aheadGroup
}

// An aheadGroup is what one Announce announced.
type aheadGroup struct {
	ranges []*aheadRange
	unread int

	// forget ends the watch of the context.
	forget func() bool
}

// An aheadRequest reads ranges of one object that are near each other.
type aheadRequest struct {
	object Info
	ranges []*aheadRange
	// users are the ranges that are not read yet, and the reads that wait or copy.
	users int

	begun  bool
	off    int64
	buf    []byte
	cancel context.CancelFunc

	// done is closed when buf or err is there.
	done chan struct{}

	err error
}

// NewAhead makes an Ahead over a store. Its Close closes the store, too.
func NewAhead(store Store, cfg AheadConfig) *Ahead {
	ctx, stop := context.WithCancel(context.Background())
	return &Ahead{store: store, cfg: cfg.withDefaults(), ctx: ctx, stop: stop, ranges: map[Range]*aheadRange{}}
}

// URL implements Store.
func (a *Ahead) URL() string { return a.store.URL() }

// List implements Store.
func (a *Ahead) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return a.store.List(ctx, prefix)
}

// Stat implements Store.
func (a *Ahead) Stat(ctx context.Context, name string) (Info, error) { return a.store.Stat(ctx, name) }

// Folders passes on what the store knows of folders.
func (a *Ahead) Folders(ctx context.Context) ([]string, error) { return foldersOf(ctx, a.store) }

// Announce says that these ranges will be read, each as often as it is announced. It does not
// wait. Their requests begin in the order of the ranges, as far as the bounds let them; ranges near
// each other share one. When ctx ends, what was not read is forgotten.
func (a *Ahead) Announce(ctx context.Context, ranges []Range) {
	if ctx.Err() != nil || a.ctx.Err() != nil {
		return
	}
	group := &aheadGroup{}
	a.mu.Lock()
	defer a.mu.Unlock()
	var fresh []*aheadRange
	for _, r := range ranges {
		if r.Length <= 0 || r.Length > a.cfg.Bytes || r.Off < 0 || r.Length > r.Object.Size-r.Off {
			// The read itself will say what is wrong.
			continue
		}
		entry := a.ranges[r]
		if entry == nil {
			entry = &aheadRange{Range: r}
			a.ranges[r] = entry
			fresh = append(fresh, entry)
		}
		entry.announced = append(entry.announced, group)
		group.ranges = append(group.ranges, entry)
	}
	group.unread = len(group.ranges)
	if group.unread == 0 {
		return
	}
	a.queue = append(a.queue, merge(fresh, a.cfg)...)
	group.forget = context.AfterFunc(ctx, func() { a.drop(group) })
	a.begin()
}

// merge makes the requests of ranges, in the order of the first range of each.
func merge(fresh []*aheadRange, cfg AheadConfig) []*aheadRequest {
	order := make(map[*aheadRange]int, len(fresh))
	for i, r := range fresh {
		order[r] = i
	}
	sorted := slices.Clone(fresh)
	slices.SortFunc(sorted, func(x, y *aheadRange) int {
		return cmp.Or(cmp.Compare(x.Object.Name, y.Object.Name), cmp.Compare(x.Object.Version, y.Object.Version),
			cmp.Compare(x.Object.Size, y.Object.Size), cmp.Compare(x.Off, y.Off), cmp.Compare(x.Length, y.Length))
	})
	var requests []*aheadRequest
	first := map[*aheadRequest]int{}
	var last *aheadRequest

	// start and end are those of last, and gaps are the bytes in it that nobody wants.
	var start, end, gaps int64
	for _, r := range sorted {
		gap, to := max(0, r.Off-end), max(end, r.Off+r.Length)
		if last == nil || last.object != r.Object || gap > cfg.Gap || to-start > cfg.Longest || 2*(gaps+gap) > to-start {
			last = &aheadRequest{object: r.Object, done: make(chan struct{})}
			requests, first[last] = append(requests, last), order[r]
			start, gap, gaps, to = r.Off, 0, 0, r.Off+r.Length
		}
		r.request = last
		last.ranges = append(last.ranges, r)
		last.users++
		end, gaps = to, gaps+gap
		first[last] = min(first[last], order[r])
	}
	slices.SortFunc(requests, func(x, y *aheadRequest) int { return cmp.Compare(first[x], first[y]) })
	return requests
}

// begin begins requests as far as the bounds let it. It needs mu.
func (a *Ahead) begin() {
	for len(a.queue) > 0 && a.running < a.cfg.Requests && a.ctx.Err() == nil {
		request := a.queue[0]
		// Ranges that their readers read themselves, or that were dropped, are not read.
		// They leave gaps, so what is left may be several requests.
		announced := len(request.ranges)
		request.ranges = slices.DeleteFunc(request.ranges, func(r *aheadRange) bool { return r.request != request })
		if n := len(request.ranges); n > 1 && n < announced {
			a.queue = slices.Replace(a.queue, 0, 1, merge(request.ranges, a.cfg)...)
			continue
		}
		if len(request.ranges) > 0 {
			off, end := request.ranges[0].Off, int64(0)
			for _, r := range request.ranges {
				end = max(end, r.Off+r.Length)
			}
			if a.bytes+end-off > a.cfg.Bytes {
				return
			}
			a.bytes += end - off
			a.running++
			request.begun, request.off = true, off
			var ctx context.Context
			ctx, request.cancel = context.WithCancel(a.ctx)
			a.ended.Go(func() { a.read(ctx, request, end-off) })
		}
		a.queue[0] = nil
		a.queue = a.queue[1:]
	}
}

// read carries a request out.
func (a *Ahead) read(ctx context.Context, request *aheadRequest, length int64) {
	buf := make([]byte, length)
	err := a.store.ReadRange(ctx, request.object, buf, request.off)
	request.cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	request.buf, request.err = buf, err
	if err != nil {
		// Those who read its ranges read them anew: the error is of the range at fault
		// alone.
		request.buf = nil
		a.bytes -= length
	}
	close(request.done)
	if request.users == 0 {
		a.free(request)
	}
	a.begin()
}

// free gives back the memory of a request that is done. It needs mu.
func (a *Ahead) free(request *aheadRequest) {
	a.bytes -= int64(len(request.buf))
	request.buf = nil
}

// leave ends one use of a request. It needs mu.
func (a *Ahead) leave(request *aheadRequest) {
	if request.users--; request.users > 0 || !request.begun {
		return
	}
	select {
	case <-request.done:
		a.free(request)
	default:
		request.cancel()
	}
}

// take takes one announcement off a range, the oldest one or that of a group. It needs mu.
func (a *Ahead) take(r *aheadRange, of *aheadGroup) {
	i := 0
	if of != nil {
		if i = slices.Index(r.announced, of); i < 0 {
			return
		}
	}
	group := r.announced[i]
	r.announced = slices.Delete(r.announced, i, i+1)
	if group.unread--; group.unread == 0 {
		group.forget()
	}
	if len(r.announced) > 0 {
		return
	}
	delete(a.ranges, r.Range)
	request := r.request
	r.request = nil
	a.leave(request)
}

// drop forgets what is left of a group.
func (a *Ahead) drop(group *aheadGroup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range group.ranges {
		a.take(r, group)
	}
	a.begin()
}

// ReadRange implements Store.
func (a *Ahead) ReadRange(ctx context.Context, object Info, p []byte, off int64) error {
	if request := a.use(Range{object, off, int64(len(p))}); request != nil {
		ok := copyOf(ctx, request, p, off)
		a.mu.Lock()
		a.leave(request)
		a.begin()
		a.mu.Unlock()
		if ok {
			return nil
		}
	}
	return a.store.ReadRange(ctx, object, p, off)
}

// use takes an announcement off a range, and returns the request that has begun for it, with one
// user more; nil: there is none.
func (a *Ahead) use(r Range) *aheadRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry := a.ranges[r]
	if entry == nil {
		return nil
	}
	request := entry.request
	request.users++
	a.take(entry, nil)
	if request.begun {
		return request
	}
	request.users--

	// The request in front may be one that nobody needs any more.
	a.begin()
	return nil
}

// copyOf waits for a request and copies from its memory. It reports whether it could.
func copyOf(ctx context.Context, request *aheadRequest, p []byte, off int64) bool {
	select {
	case <-request.done:
	case <-ctx.Done():
		return false
	}
	if request.err != nil {
		return false
	}
	copy(p, request.buf[off-request.off:])
	return true
}

// Close ends the requests under way and closes the store.
func (a *Ahead) Close() error {
	a.stop()
	a.mu.Lock()
	a.queue = nil
	for _, r := range a.ranges {
		for len(r.announced) > 0 {
			a.take(r, nil)
		}
	}
	a.mu.Unlock()
	a.ended.Wait()
	return a.store.Close()
}
