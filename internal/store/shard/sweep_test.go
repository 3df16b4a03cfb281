package shard

import (
	"testing"

	"github.com/paragon-train/paragon/internal/compute/shm"
)

// Memory that nothing needs is given back, once it was not needed for a while: what is used again
// and again stays.
func TestSweepGivesBackWhatIsNotNeeded(t *testing.T) {
	const large = 256 << 10
	for _, shared := range []bool{false, true} {
		p := &Pool{Shared: shared}
		var held []*Buffer
		at := map[*uint64]bool{}
		for range 10 {
			b := p.Get(large)
			b.Bytes(large)[large-1] = 1
			held = append(held, b)
			at[&b.words[0]] = true
		}
		if shared && !shm.Discard(held[9].Bytes(large)) {
			t.Skip("this system has no memory that is shared")
		}
		if given := p.Sweep(); given != 0 {
			t.Errorf("shared %v: %d bytes were given back while all are in use, want 0", shared, given)
		}
		for _, b := range held {
			b.Release()
		}
		if given := p.Sweep(); given != 0 {
			t.Errorf("shared %v: %d bytes were given back that had just been in use, want 0", shared, given)
		}
		// Three are in use at a time, in turns.
		for range 2 {
			for i := range held[:3] {
				held[i] = p.Get(large)
			}
			for _, b := range held[:3] {
				b.Release()
			}
		}
		if given, want := p.Sweep(), int64(7*large); given != want {
			t.Errorf("shared %v: %d bytes were given back, want %d", shared, given, want)
		}
		if given, want := p.Sweep(), int64(3*large); given != want {
			t.Errorf("shared %v: after a while without use %d bytes were given back, want %d", shared, given, want)
		}
		if given := p.Sweep(); given != 0 {
			t.Errorf("shared %v: %d bytes were given back twice", shared, given)
		}
		if p.idle != 0 || p.Taken() != 0 {
			t.Errorf("shared %v: the pool holds %d bytes for itself, and %d are taken, want none", shared, p.idle, p.Taken())
		}
		// All of it is good again, holds zeros, and is at the same addresses where others
		// have it mapped.
		for i := range held {
			held[i] = p.zeroed(large)
			if x := held[i].Bytes(large); x[0] != 0 || x[large-1] != 0 {
				t.Fatalf("shared %v: memory that was given back holds %d and %d, want zeros", shared, x[0], x[large-1])
			}
			if shared && !at[&held[i].words[0]] {
				t.Errorf("buffer %d lies elsewhere: who had the old one mapped has both now", i)
			}
		}
	}
}
