package suggest

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestPrimitivePolynomials(t *testing.T) {
	// φ(2^s − 1)/s primitive polynomials of degree s.
	want := map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 6, 6: 6, 7: 18, 8: 16, 9: 48, 10: 60}
	for s, n := range want {
		got := 0
		for p := uint64(1) << s; p < 2<<s; p++ {
			if primitive(p) {
				got++
			}
		}
		if got != n {
			t.Errorf("degree %d: %d primitive polynomials, want %d", s, got, n)
		}
	}
}

// Every dim alone is stratified: 2^m points fall one into each of 2^m equal cells, scrambled or
// not. Two dims fill elementary boxes but for their t.
func TestSobolPointsAreStratified(t *testing.T) {
	const dims, m = 24, 8
	start := time.Now()
	ms := sobolMatrices(dims)
	t.Logf("%d dims in %v", dims, time.Since(start))
	cells := make([]map[int]bool, dims)
	for d := range cells {
		cells[d] = make(map[int]bool)
	}
	var points [][]float64
	for n := range uint32(1 << m) {
		u := sobolPoint(ms, n, 42)
		points = append(points, u)
		for d, x := range u {
			if x < 0 || x >= 1 {
				t.Fatalf("point %d dim %d: %v is outside [0, 1)", n, d, x)
			}
			cells[d][int(x*(1<<m))] = true
		}
	}
	for d, c := range cells {
		if len(c) != 1<<m {
			t.Errorf("dim %d: %d points fill %d cells", d, 1<<m, len(c))
		}
	}
	worst := 0
	for i := range dims {
		for j := range i {
			boxes := make(map[[2]int]int)
			for _, u := range points {
				boxes[[2]int{int(u[i] * 16), int(u[j] * 16)}]++
			}
			for _, n := range boxes {
				worst = max(worst, n)
			}
		}
	}
	if worst > 8 {
		t.Errorf("a box of 1/16 by 1/16 has %d of 256 points", worst)
	}
	t.Logf("fullest box of any two dims: %d", worst)
}

func TestSobolIntegratesBetterThanRandom(t *testing.T) {
	// ∏ (1 + (x_d − ½)/d²) has the integral 1.
	const dims, n = 8, 1024
	ms := sobolMatrices(dims)
	for seed := range uint64(5) {
		sum := 0.0
		for i := range uint32(n) {
			f := 1.0
			for d, x := range sobolPoint(ms, i, seed) {
				f *= 1 + (x-0.5)/float64((d+1)*(d+1))
			}
			sum += f
		}
		// A random sample's error has the standard deviation 0.3/√n = 0.01.
		if e := math.Abs(sum/n - 1); e > 5e-4 {
			t.Errorf("seed %d: error %v", seed, e)
		}
	}
	if a, b := fmt.Sprint(sobolPoint(ms, 5, 1)), fmt.Sprint(sobolPoint(ms, 5, 2)); a == b {
		t.Errorf("two seeds give the same point %s", a)
	}
}
