package shard

import "github.com/paragon-train/paragon/internal/store/freelist"

// freeLists are the Versions and Waits that the shards of one Pool reuse, as many as were ever in
// use together. A pull that waits, and a round whose value is still read, would each allocate. They
// belong to the pool and not to a shard, since of many small keys few have readers at once. They
// may be used while a shard's mutex is held.
type freeLists struct {
	versions freelist.List[Version]
	waits    freelist.List[Wait]
}

// version returns a Version without readers and data.
func (f *freeLists) version() *Version {
	if v := f.versions.Take(); v != nil {
		return v
	}
	return &Version{}
}

// keepVersion takes a Version that has no readers and no data.
func (f *freeLists) keepVersion(v *Version) {
	v.of = nil
	f.versions.Keep(v)
}

// wait returns a Wait whose channel is empty.
func (f *freeLists) wait() *Wait {
	if w := f.waits.Take(); w != nil {
		return w
	}
	return &Wait{done: make(chan struct{}, 1)}
}

// keepWait takes a Wait that is over, and whose channel is empty.
func (f *freeLists) keepWait(w *Wait) {
	w.of = nil
	f.waits.Keep(w)
}
