package kvstore_test

import (
	"testing"

	"github.com/paragon-train/paragon/kvstore"
)

func TestFloat32sAreZeros(t *testing.T) {
	for _, n := range []int{0, 1, 3, 1000, 1_000_003} {
		x := kvstore.Float32s(n)
		if len(x) != n || cap(x) != n {
			t.Errorf("Float32s(%d): got length %d, capacity %d", n, len(x), cap(x))
		}
		for i, v := range x {
			if v != 0 {
				t.Fatalf("Float32s(%d): number %d is %v, want 0", n, i, v)
			}
			x[i] = 1
		}
	}
}
