package plan

import (
	"math/rand/v2"
	"testing"
)

func TestPackedRoomsDoNotMeet(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		rooms := make([]*allocation, 1+rng.IntN(60))
		for i := range rooms {
			first := rng.IntN(40)
			rooms[i] = &allocation{size: align * int64(1+rng.IntN(20)), first: first, last: first + rng.IntN(10)}
		}
		end := pack(rooms)
		for i, a := range rooms {
			if a.offset < 0 || a.offset%align != 0 || a.offset+a.size > end {
				t.Fatalf("seed %d: room of %d at %d, arena of %d", seed, a.size, a.offset, end)
			}
			for _, b := range rooms[:i] {
				if a.first <= b.last && b.first <= a.last && a.offset < b.offset+b.size && b.offset < a.offset+a.size {
					t.Fatalf("seed %d: rooms %+v and %+v meet", seed, *a, *b)
				}
			}
		}
	}
}
