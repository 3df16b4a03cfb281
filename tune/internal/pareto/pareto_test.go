package pareto

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// grid draws points of small whole numbers, so that ties are frequent and volumes are counts of
// cells.
func grid(rng *rand.Rand, n, numbers, size int) [][]float64 {
	points := make([][]float64, n)
	for i := range points {
		points[i] = make([]float64, numbers)
		for k := range points[i] {
			points[i][k] = float64(1 + rng.IntN(size))
		}
	}
	return points
}

// Each front must be what no point outside of the fronts before dominates, and violating points
// must follow by violation.
func TestFrontsAreWhatNoRemainingPointDominates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		points := grid(rng, 1+rng.IntN(30), 1+rng.IntN(4), 4)
		violations := make([]float64, len(points))
		for i := range violations {
			violations[i] = float64(max(0, rng.IntN(6)-3))
		}
		left := make([]int, len(points))
		for i := range left {
			left[i] = i
		}
		beats := func(a, b int) bool {
			if violations[a] != violations[b] {
				return violations[a] < violations[b]
			}
			return violations[a] == 0 && Dominates(points[a], points[b])
		}
		for rank, front := range Fronts(points, violations, len(points)) {
			var want, rest []int
			for _, i := range left {
				if slices.ContainsFunc(left, func(j int) bool { return beats(j, i) }) {
					rest = append(rest, i)
				} else {
					want = append(want, i)
				}
			}
			if !slices.Equal(front, want) {
				t.Fatalf("front %d of %v with violations %v: got %v, want %v", rank, points, violations, front, want)
			}
			left = rest
		}
		if len(left) > 0 {
			t.Fatalf("points %v are on no front", left)
		}
	}
}

func TestFrontsStopsWhenThereAreEnough(t *testing.T) {
	points := [][]float64{{1, 1}, {2, 2}, {3, 3}, {3, 3}}
	if got := Fronts(points, nil, 3); len(got) != 2 || !slices.Equal(got[0], []int{2, 3}) || !slices.Equal(got[1], []int{1}) {
		t.Errorf("got %v, want [[2 3] [1]]", got)
	}
}

func TestCrowdingIsTheDistanceOfTheNeighbours(t *testing.T) {
	points := [][]float64{{0, 10}, {4, 5}, {1, 8}, {10, 0}}
	got := Crowding(points, []int{0, 1, 2, 3})
	want := []float64{math.Inf(1), 0.9 + 0.8, 0.4 + 0.5, math.Inf(1)}
	for i := range want {
		if got[i] != want[i] && math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("point %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

// cells counts the unit cells that points dominate.
func cells(points [][]float64, numbers, size int) float64 {
	count := 0.0
	cell := make([]int, numbers)
	for {
		if slices.ContainsFunc(points, func(p []float64) bool {
			for k := range p {
				if p[k] < float64(cell[k]+1) {
					return false
				}
			}
			return true
		}) {
			count++
		}
		k := 0
		for ; k < numbers; k++ {
			if cell[k]++; cell[k] < size {
				break
			}
			cell[k] = 0
		}
		if k == numbers {
			return count
		}
	}
}

func TestHypervolumeAndContributionsCountCells(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 100 {
		numbers := 1 + rng.IntN(4)
		points := grid(rng, 1+rng.IntN(8), numbers, 5)
		reference := make([]float64, numbers)
		if got, want := Hypervolume(points, reference), cells(points, numbers, 5); math.Abs(got-want) > 1e-9 {
			t.Fatalf("volume of %v: got %v, want %v", points, got, want)
		}
		for i, got := range Contributions(points, reference) {
			rest := slices.Delete(slices.Clone(points), i, i+1)
			if want := cells(points, numbers, 5) - cells(rest, numbers, 5); math.Abs(got-want) > 1e-9 {
				t.Fatalf("point %d of %v adds %v, want %v", i, points, got, want)
			}
		}
	}
	if got := Hypervolume([][]float64{{2, 2}, {-1, 9}, {math.NaN(), 9}}, []float64{0, 0}); got != 4 {
		t.Errorf("points below the reference count: got %v, want 4", got)
	}
}

// The choice must be that of the plain greedy rule.
func TestSubsetTakesWhatAddsMost(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		numbers := 2 + rng.IntN(3)
		points := grid(rng, 2+rng.IntN(12), numbers, 6)
		reference := make([]float64, numbers)
		k := 1 + rng.IntN(len(points))
		var want []int
		var set [][]float64
		for range k {
			best, gain := -1, -1.0
			for i, p := range points {
				if slices.Contains(want, i) {
					continue
				}
				if g := Hypervolume(append(slices.Clone(set), p), reference) - Hypervolume(set, reference); g > gain+1e-9 {
					best, gain = i, g
				}
			}
			want, set = append(want, best), append(set, points[best])
		}
		if got := Subset(points, reference, k); !slices.Equal(got, want) {
			t.Fatalf("%d of %v: got %v, want %v", k, points, got, want)
		}
	}
}
