package cuda

import (
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// Parts lie one behind the other, make the whole, and each begins at a multiple of 16 bytes.
func TestPartsOfAPieceBeginAtMultiplesOf16Bytes(t *testing.T) {
	for ranks := 1; ranks <= 5; ranks++ {
		for n := int64(0); n < 70; n++ {
			p, next := piece{make([]drv.Ptr, ranks), n}, int64(0)
			for i := range ranks {
				from, count := p.part(i)
				if from != next || from%4 != 0 || count < 0 || count > p.largest() {
					t.Fatalf("part %d of %d numbers on %d ranks is %d from %d, want it from %d, a multiple of 4", i, n, ranks, count, from, next)
				}
				next += count
			}
			if next != n {
				t.Fatalf("parts of %d numbers on %d ranks have %d", n, ranks, next)
			}
		}
	}
}
