package shard

import (
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A readers hands the shard's value to those who pull it: at once as a Version, or later to those
// who wait for a round. It decides nothing about rounds; a progress says who may have the value.
//
// A Version that is held never changes, and holding it delays no round: the next round's value then
// goes to other memory. What comes back from outside (a Version, a Wait) comes without the shard,
// and locks mu by itself. All other methods are called with mu locked.
type readers struct {
	// mu is the shard's mutex.
	mu  *sync.Mutex
	cfg *Config
	// current is the newest Version. It is never nil, and has no data once the shard was
	// forgotten.
	current *Version
	// waits is the queue of those whose value is not there yet.
	waits []*Wait
}

// acquire returns the newest Version to one more reader. Shards of rows change their values in
// place and have no Versions.
func (r *readers) acquire() *Version {
	if r.cfg.RowLen > 0 {
		return nil
	}
	r.current.readers++
	return r.current
}

// release takes a Version back. The newest one stays, even without readers.
func (r *readers) release(v *Version) {
	if v.readers <= 0 {
		panic("shard: Version released twice")
	}
	v.readers--
	if v.readers == 0 && v != r.current {
		v.free()
		r.cfg.Pool.unused.keepVersion(v)
	}
}

// writable returns the value's numbers for a change in place. If a reader still holds them, a copy
// replaces them first.
func (r *readers) writable() []float32 {
	if r.current.readers > 0 {
		old := r.current.Float32s()
		r.replace(r.cfg.Pool.Get(4 * r.cfg.values()))
		copy(r.current.Float32s(), old)
	}
	return r.current.Float32s()
}

// replace makes data the newest value.
func (r *readers) replace(data *Buffer) {
	if r.current.readers == 0 {
		r.current.data.Release()
		r.current.data = data
		return
	}
	v := r.cfg.Pool.unused.version()
	v.of, v.data = r, data
	r.current = v
}

// drop frees the value, or leaves that to its last reader. The shard has ended: every use returns
// its error before it reads the value.
func (r *readers) drop() {
	last := r.current
	r.current = &Version{of: r}
	if last.readers == 0 {
		last.free()
	}
}

// wait puts a Want into the queue. The queue has no order: all waits that a round satisfies end
// with it.
func (r *readers) wait(want Want) *Wait {
	w := r.cfg.Pool.unused.wait()
	w.of, w.want = r, want
	r.waits = append(r.waits, w)
	return w
}

// wake ends the waits whose value is available, or all with err if the shard has ended.
func (r *readers) wake(err error, p *progress) {
	keep := r.waits[:0]
	for _, w := range r.waits {
		if err == nil && !p.has(&w.want) {
			keep = append(keep, w)
			continue
		}
		r.end(w, err)
	}
	clear(r.waits[len(keep):])
	r.waits = keep
}

// end ends a wait, with the value if err is nil. The caller takes it off the queue. It never
// blocks: a Wait's channel has room for its one token.
func (r *readers) end(w *Wait, err error) {
	w.over, w.err = true, err
	if err == nil && !w.want.Clip {
		w.version = r.acquire()
	}
	w.done <- struct{}{}
}

// expel ends the waits of nodes that are no longer members. A worker that was removed gets the
// answer; one that was lost does not, but its wait holds no goroutine any more.
func (r *readers) expel(left []*member, generation uint64) {
	if len(left) == 0 {
		return
	}
	r.waits = slices.DeleteFunc(r.waits, func(w *Wait) bool {
		if !slices.ContainsFunc(left, func(m *member) bool { return m.Node == w.want.Node }) {
			return false
		}
		r.end(w, r.cfg.refuse(wire.CodeUnknownNode, "wait: node %d is no longer a worker in generation %d", w.want.Node, generation))
		return true
	})
}

// cancel ends a wait that no one asks for any more.
func (r *readers) cancel(w *Wait) {
	if !w.over {
		if i := slices.Index(r.waits, w); i >= 0 {
			r.waits = slices.Delete(r.waits, i, i+1)
		}
		return
	}
	// No one will receive the token.
	select {
	case <-w.done:
	default:
	}
	if w.version != nil {
		r.release(w.version)
	}
}

// forget returns a wait that is over to the spare ones.
func (r *readers) forget(w *Wait) {
	w.over, w.version, w.err = false, nil, nil
	r.cfg.Pool.unused.keepWait(w)
}
