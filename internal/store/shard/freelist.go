package shard

import "sync"

// freeLists are the Versions and Waits that the shards of one Pool reuse, as many as were ever in
// use together. A pull that waits, and a round whose value is still read, would each allocate. They
// belong to the pool and not to a shard, since of many small keys few have readers at once.
type freeLists struct {
	versions freeList[Version]
	waits    freeList[Wait]
}

// version returns a Version without readers and data.
func (f *freeLists) version() *Version {
	if v := f.versions.take(); v != nil {
		return v
	}
	return &Version{}
}

// keepVersion takes a Version that has no readers and no data.
func (f *freeLists) keepVersion(v *Version) {
	v.of = nil
	f.versions.keep(v)
}

// wait returns a Wait whose channel is empty.
func (f *freeLists) wait() *Wait {
	if w := f.waits.take(); w != nil {
		return w
	}
	return &Wait{done: make(chan struct{}, 1)}
}

// keepWait takes a Wait that is over, and whose channel is empty.
func (f *freeLists) keepWait(w *Wait) {
	w.of = nil
	f.waits.keep(w)
}

// A freeList holds values for reuse. Unlike a sync.Pool it keeps them over garbage collections.
type freeList[T any] struct {
	// mu guards list. It is taken while a shard's mutex is held.
	mu   sync.Mutex
	list []*T
}

// maxFree is how many values a freeList keeps.
const maxFree = 4096

// take returns a value, or nil if there is none.
func (l *freeList[T]) take() *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.list)
	if n == 0 {
		return nil
	}
	x := l.list[n-1]
	l.list = l.list[:n-1]
	return x
}

// keep takes a value, or leaves it to the collector if the list is full.
func (l *freeList[T]) keep(x *T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) < maxFree {
		l.list = append(l.list, x)
	}
}
