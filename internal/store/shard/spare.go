package shard

import "sync"

// A spareList keeps Versions and Waits for reuse by the shards of one Pool, as many as were ever in
// use together. A pull that waits, and a round whose value is still read, would each allocate. The
// lists belong to the pool and not to a shard, since of many small keys few have readers at once.
type spareList struct {
	// mu guards the rest. It is taken while a shard's mutex is held.
	mu       sync.Mutex
	versions []*Version
	waits    []*Wait
}

// maxSpare is how many of a kind are kept.
const maxSpare = 4096

func (l *spareList) version() *Version {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.versions)
	if n == 0 {
		return &Version{}
	}
	v := l.versions[n-1]
	l.versions = l.versions[:n-1]
	return v
}

// keepVersion takes a Version that has no readers and no data.
func (l *spareList) keepVersion(v *Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.versions) < maxSpare {
		v.of = nil
		l.versions = append(l.versions, v)
	}
}

func (l *spareList) wait() *Wait {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.waits)
	if n == 0 {
		return &Wait{done: make(chan struct{}, 1)}
	}
	w := l.waits[n-1]
	l.waits = l.waits[:n-1]
	return w
}

// keepWait takes a Wait that is over, and whose channel is empty.
func (l *spareList) keepWait(w *Wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waits) < maxSpare {
		w.of = nil
		l.waits = append(l.waits, w)
	}
}
