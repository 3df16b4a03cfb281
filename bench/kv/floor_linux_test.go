package main

import "testing"

// Pieces of all cores together are the whole sum.
func TestFloorSums(t *testing.T) {
	a, b := make([]float32, 50_001), make([]float32, 50_001)
	for i := range a {
		a[i], b[i] = float32(i), 1
	}
	sum := make([]float32, len(a))
	sumPieces(sum, [][]float32{a, b})
	for i, x := range sum {
		if x != float32(i)+1 {
			t.Fatalf("value %d: got %v, want %v", i, x, i+1)
		}
	}
}
