package sampler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/sampler"
)

// parts returns what each of n parts reads in an epoch.
func parts(t *testing.T, length, n, epoch int, opts ...sampler.Option) [][]int {
	t.Helper()
	all := make([][]int, n)
	for p := range n {
		s, err := sampler.Split(length, n, p, opts...)
		if err != nil {
			t.Fatalf("Split(%d, %d, %d): %v", length, n, p, err)
		}
		all[p] = slices.Collect(s.Epoch(epoch))
		if len(all[p]) != s.Len() {
			t.Fatalf("Split(%d, %d, %d): got %d indices, Len says %d", length, n, p, len(all[p]), s.Len())
		}
	}
	return all
}

func TestSpreadReadsEveryExampleExactlyOnce(t *testing.T) {
	for _, length := range []int{0, 1, 2, 5, 7, 100, 1001, 50_000} {
		for _, n := range []int{1, 2, 3, 7, 8, 64} {
			seen := make([]int, length)
			shortest, longest := length, 0
			for _, part := range parts(t, length, n, 3, sampler.Seed(9)) {
				shortest, longest = min(shortest, len(part)), max(longest, len(part))
				for _, i := range part {
					seen[i]++
				}
			}
			for i, times := range seen {
				if times != 1 {
					t.Fatalf("length %d, %d parts: example %d: got read %d times, want 1", length, n, i, times)
				}
			}
			if longest-shortest > 1 {
				t.Errorf("length %d, %d parts: got lengths %d to %d, want a difference of at most 1", length, n, shortest, longest)
			}
		}
	}
}

func TestPartsAreContiguousAndStayTheSameInEveryEpoch(t *testing.T) {
	for _, policy := range []sampler.Policy{sampler.Spread, sampler.Drop} {
		for epoch := range 3 {
			for p, part := range parts(t, 103, 4, epoch, sampler.Remainder(policy)) {
				first := slices.Clone(parts(t, 103, 4, 0, sampler.Remainder(policy))[p])
				slices.Sort(part)
				slices.Sort(first)
				if !slices.Equal(part, first) || part[len(part)-1]-part[0] != len(part)-1 {
					t.Errorf("%v part %d epoch %d: got %v, want the contiguous %v", policy, p, epoch, part, first)
				}
			}
		}
	}
}

func TestDropLeavesOutTheRemainder(t *testing.T) {
	all := parts(t, 50_000, 7, 0, sampler.Remainder(sampler.Drop))
	for p, part := range all {
		if len(part) != 7142 || slices.Min(part) != 7142*p {
			t.Errorf("part %d: got %d from %d, want 7142 from %d", p, len(part), slices.Min(part), 7142*p)
		}
	}
}

func TestPadReadsEveryExampleAndAllPartsAreEquallyLong(t *testing.T) {
	for _, length := range []int{0, 1, 3, 10, 101} {
		for _, n := range []int{1, 4, 7} {
			seen := make([]int, length)
			for p, part := range parts(t, length, n, 0, sampler.Remainder(sampler.Pad)) {
				if want := (length + n - 1) / n; len(part) != want {
					t.Errorf("length %d, part %d of %d: got %d, want %d", length, p, n, len(part), want)
				}
				for _, i := range part {
					seen[i]++
				}
			}
			if i := slices.Index(seen, 0); i >= 0 {
				t.Errorf("length %d, %d parts: example %d is never read", length, n, i)
			}
		}
	}
}

func TestOrderDependsOnSeedEpochAndPartOnly(t *testing.T) {
	order := func(part, epoch int, opts ...sampler.Option) []int {
		s, err := sampler.Split(4000, 4, part, opts...)
		if err != nil {
			t.Fatal(err)
		}
		list := slices.Collect(s.Epoch(epoch))
		for i := range list {
			list[i] -= 1000 * part
		}
		return list
	}
	base := order(1, 2, sampler.Seed(3))
	if again := order(1, 2, sampler.Seed(3)); !slices.Equal(base, again) {
		t.Error("same seed, epoch and part: got another order")
	}
	for name, other := range map[string][]int{
		"seed 4":   order(1, 2, sampler.Seed(4)),
		"epoch 3":  order(1, 3, sampler.Seed(3)),
		"part 2":   order(2, 2, sampler.Seed(3)),
		"in order": order(1, 2, sampler.Seed(3), sampler.InOrder()),
	} {
		same := 0
		for i := range base {
			if base[i] == other[i] {
				same++
			}
		}
		if same > 10 { // one is expected by chance
			t.Errorf("%s: got %d of 1000 indices at the same place, want another order", name, same)
		}
	}
	if got := order(1, 0, sampler.Seed(3), sampler.Epoch(2)); !slices.Equal(got, base) {
		t.Error("Epoch(2) and epoch 0: want the order of epoch 2")
	}
}

// The order is part of what a checkpoint means: a change of it would make a
// resumed run read examples twice.
func TestOrderIsPinned(t *testing.T) {
	s, err := sampler.Split(20, 2, 1, sampler.Seed(42))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(slices.Collect(s.Epoch(1))), "[19 13 10 16 18 12 11 17 14 15]"; got != want {
		t.Errorf("seed 42, epoch 1, part 1 of 2 over 20: got %s, want %s", got, want)
	}
}

func TestFromIsTheRestOfTheEpoch(t *testing.T) {
	s, err := sampler.Split(100, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Collect(s.Epoch(5))
	for _, skip := range []int{-1, 0, 1, 20, s.Len(), s.Len() + 1} {
		got, want := slices.Collect(s.From(5, skip)), all[min(max(skip, 0), len(all)):]
		if !slices.Equal(got, want) {
			t.Errorf("From(5, %d): got %v, want %v", skip, got, want)
		}
	}
	for range s.Epoch(0) {
		break // stopping early is allowed
	}
}

func TestWrongNumbersAreErrors(t *testing.T) {
	for _, c := range []struct {
		length, n, part int
		opt             sampler.Option
		want            string
	}{
		{-1, 1, 0, sampler.Seed(0), "length -1"},
		{10, 0, 0, sampler.Seed(0), "got 0 parts"},
		{10, 2, 2, sampler.Seed(0), "got part 2, want 0 to 1; if it is the rank of a worker that joins a running job, it has none before it counts: call Ready"},
		{10, 2, 3, sampler.Seed(0), "got part 3, want 0 to 1"},
		{10, 2, -1, sampler.Seed(0), "got part -1"},
		{10, 2, 0, sampler.Remainder(9), "Policy(9)"},
	} {
		_, err := sampler.Split(c.length, c.n, c.part, c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Split(%d, %d, %d): got error %v, want one with %q", c.length, c.n, c.part, err, c.want)
		}
	}
}

func ExampleSplit() {
	for part := range 3 {
		s, err := sampler.Split(10, 3, part, sampler.InOrder())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(part, slices.Collect(s.Epoch(0)))
	}
	// Output:
	// 0 [0 1 2 3]
	// 1 [4 5 6]
	// 2 [7 8 9]
}
