package shardserver

import (
	"runtime"
	"testing"
)

// What a key of one value takes on its server is bounded, also once it was pushed and pulled.
func TestASmallKeyTakesLittleMemory(t *testing.T) {
	const keys, most = 2000, 1000 // bytes: about 950
	r := newRig(t, 1)
	rounds := func(from, to uint64) {
		for key := from; key < to; key++ {
			r.init(key, 0)
			r.wantResults("1: [1], ok", partOf(0, key, 0, true, 1), partOf(0, key, 1, false, 2))
		}
	}
	inUse := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	rounds(0, 100) // what all keys share is there afterwards
	before := inUse()
	rounds(100, 100+keys)
	each := (inUse() - before) / keys
	runtime.KeepAlive(r)
	if each > most {
		t.Errorf("a key of one value takes %d bytes, want at most %d", each, most)
	}
}
