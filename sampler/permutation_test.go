package sampler

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// position is the inverse of at: where a number stands.
func (p *permutation) position(number int) int {
	x := uint64(number)
	if p.n <= smallest {
		return slices.Index(p.list[:p.n], uint8(number))
	}
	for {
		l, r := x/p.b, x%p.b
		for k := rounds - 2; k >= 0; k -= 2 {
			if d := scale(mix(p.keys[k+1], l), p.b); r < d {
				r += p.b - d
			} else {
				r -= d
			}
			if d := scale(mix(p.keys[k], r), p.a); l < d {
				l += p.a - d
			} else {
				l -= d
			}
		}
		if x = l*p.b + r; x < p.n {
			return int(x)
		}
	}
}

func TestAPermutationHasEachNumberOnce(t *testing.T) {
	sizes := []int{97, 100, 101, 255, 256, 257, 1023, 1024, 1025, 9999, 10_000, 65_537}
	for n := 1; n <= 82; n++ { // the list, and the first networks
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		for key := range uint64(5) {
			p := makePermutation(n, key)
			seen := make([]bool, n)
			for i := range n {
				v := p.at(i)
				if v < 0 || v >= n || seen[v] {
					t.Fatalf("n %d, key %d: position %d: got %d, want each number below n once", n, key, i, v)
				}
				seen[v] = true
			}
		}
	}
}

// It works up to the largest numbers, where a product or a square root may be off by one.
func TestAPermutationHasAnInverse(t *testing.T) {
	for _, n := range []int{1, 2, 64, 65, 1000, 1e6, 1e9, 1<<31 - 1, math.MaxInt>>10 + 2, math.MaxInt>>5 + 1, math.MaxInt - 1, math.MaxInt} {
		p := makePermutation(n, 11)
		for k := range 200 {
			i := int(scale(mix(5, uint64(k)), uint64(n)))
			if v := p.at(i); v < 0 || v >= n || p.position(v) != i {
				t.Errorf("n %d: position %d: got %d, whose position is %d", n, i, v, p.position(v))
			}
		}
	}
}

// sigmas is by how many standard deviations of chance the counts differ from equal ones
// (chi-square, nearly normal with so many cells).
func sigmas(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want, chi := float64(total)/float64(len(counts)), 0.0
	for _, c := range counts {
		chi += (float64(c) - want) * (float64(c) - want) / want
	}
	free := float64(len(counts) - 1)
	return (chi - free) / math.Sqrt(2*free)
}

// manySigmas is what chance exceeds once in some 10⁶ checks; chi-square's tail is longer than a
// normal one.
const manySigmas = 6

// All n! permutations of few numbers come equally often over the epochs of a seed and over seeds.
func TestAllPermutationsOfFewExamplesComeEquallyOften(t *testing.T) {
	for n := 2; n <= 6; n++ {
		all := 1
		for i := 2; i <= n; i++ {
			all *= i
		}
		for _, by := range []string{"epoch", "seed"} {
			counts, rank := make([]int, all), 0
			for k := range 200 * all {
				seed, epoch := uint64(1), k
				if by == "seed" {
					seed, epoch = uint64(k), 1
				}
				p := Permutation.places(n, seed, epoch)
				rank = 0
				for i := range n { // Lehmer's code
					smaller := 0
					for j := i + 1; j < n; j++ {
						if p.at(j) < p.at(i) {
							smaller++
						}
					}
					rank = rank*(n-i) + smaller
				}
				counts[rank]++
			}
			if s := sigmas(counts); math.Abs(s) > manySigmas {
				t.Errorf("n %d by %s: the %d permutations differ from equal frequency by %.1f σ of chance", n, by, all, s)
			}
		}
	}
}

// Any two positions hold any two examples equally often: neighbours, the first and the last, and
// the halves of a network.
func TestPairsOfPositionsHoldAllPairsOfExamplesEquallyOften(t *testing.T) {
	sizes := []int{2, 3, 5, 8, 13, 21, 34, 50, 64, 65, 66, 81, 100}
	for _, n := range sizes {
		for _, pair := range [][2]int{{0, 1}, {n / 2, n/2 + 1}, {0, n - 1}, {1, 11}} {
			i, j := pair[0], pair[1]
			if i == j || j >= n {
				continue
			}
			counts := make([]int, n*(n-1))
			for k := range 10 * len(counts) {
				p := makePermutation(n, mix(99, uint64(k)))
				a, b := p.at(i), p.at(j)
				if b > a {
					b--
				}
				counts[a*(n-1)+b]++
			}
			if s := sigmas(counts); math.Abs(s) > manySigmas {
				t.Errorf("n %d, positions %d and %d: the pairs of examples differ from equal frequency by %.1f σ of chance", n, i, j, s)
			}
		}
	}
}

// In one epoch of many examples, a position and the example at it, and examples at neighbouring
// positions, have nothing in common.
func TestAnEpochOfManyExamplesHasNoStructure(t *testing.T) {
	const cells = 32
	for _, n := range []int{1e4, 1 << 16, 1<<16 + 1, 1e9} {
		for seed := range uint64(3) {
			some := min(n-1, 1<<16)
			p := Permutation.places(n, seed, 4)
			later, other := Permutation.places(n, seed, 5), Permutation.places(n, seed+1, 4)
			cell := func(example int) int { return int(float64(example) / float64(n) * cells) }
			counts := map[string][]int{}
			count := func(what string, a, b int) {
				if counts[what] == nil {
					counts[what] = make([]int, cells*cells)
				}
				counts[what][a*cells+b]++
			}
			distances := 0.0
			for k := range some {
				i := int(float64(k) / float64(some) * float64(n-1))
				a := p.at(i)
				count("position and example", cell(i), cell(a))
				count("neighbours", cell(a), cell(p.at(i+1)))
				count("epochs", cell(a), cell(later.at(i)))
				count("seeds", cell(a), cell(other.at(i)))
				count("low bits of neighbours", a%cells, p.at(i+1)%cells)
				distances += math.Abs(float64(a-p.at(i+1))) / float64(n)
			}
			for what, c := range counts {
				// Without replacement rows and columns are exactly even, so there
				// is less variance than chance has: only more is wrong.
				if s := sigmas(c); s > manySigmas {
					t.Errorf("n %d, seed %d: %s: %.1f σ from independent", n, seed, what, s)
				}
			}
			// The distance of two random points of [0, 1) is 1/3 in the mean, with
			// variance 1/18; neighbouring distances share a point, which adds 2/180 a
			// pair.
			σ := math.Sqrt((1.0/18 + 2.0/180) / float64(some))
			if got := distances / float64(some); math.Abs(got-1.0/3) > 5*σ {
				t.Errorf("n %d, seed %d: neighbours are %.5f of the set apart, want %.5f ± %.5f", n, seed, got, 1.0/3, σ)
			}
		}
	}
}

// As many examples stay at their position, in the mean over epochs, as chance leaves there: one,
// with variance 1.
func TestOneExampleStaysAtItsPositionInTheMean(t *testing.T) {
	for _, n := range []int{2, 3, 7, 16, 50, 64, 65, 100, 1000} {
		epochs, fixed := 200_000/n, 0
		for e := range epochs {
			p := Permutation.places(n, 7, e)
			for i := range n {
				if p.at(i) == i {
					fixed++
				}
			}
		}
		σ := 1 / math.Sqrt(float64(epochs))
		if mean := float64(fixed) / float64(epochs); math.Abs(mean-1) > 5*σ {
			t.Errorf("n %d: %.4f examples of an epoch stay in their place, want 1 ± %.4f", n, mean, σ)
		}
	}
}

// The order is part of what a checkpoint means: a change of it would make a resumed run read
// examples twice.
func TestPermutationsArePinned(t *testing.T) {
	list := func(o Order, n int) (all []int) {
		p := o.places(n, 42, 1)
		for i := range min(n, 12) {
			all = append(all, p.at(i))
		}
		return all
	}
	for _, c := range []struct {
		order Order
		n     int
		want  string
	}{
		{Permutation, 12, "[2 6 3 1 8 9 11 10 5 7 4 0]"},
		{Permutation, 1000, "[705 137 562 4 397 619 831 684 839 316 843 706]"},
		{Permutation, 1_000_000_000, "[545809892 147168101 996589970 495922769 788910145 418365307 75140627 549371623 361399766 766527255 729459863 387008145]"},
		{Blocks([]int{0, 3, 3, 7}, 2), 12, "[2 5 4 6 0 3 1 7 9 11 8 10]"},
	} {
		if got := fmt.Sprint(list(c.order, c.n)); got != c.want {
			t.Errorf("seed 42, epoch 1, %v of %d: got %s, want %s", c.order, c.n, got, c.want)
		}
	}
}
