package sampler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/sampler"
)

// divide returns part p of n of what remains.
func divide(t *testing.T, length int, cuts []sampler.Cut, n, p int, opts ...sampler.Option) *sampler.Sampler {
	t.Helper()
	s, err := sampler.Divide(length, cuts, n, p, opts...)
	if err != nil {
		t.Fatalf("Divide(%d, %v, %d, %d): %v", length, cuts, n, p, err)
	}
	return s
}

// An epoch with a random sequence of joins, leaves and losses: the parts use their shares in steps,
// and at each cut some of them have used less than the others (a lost one's last steps do not
// count). In the end each example was used exactly once.
func TestEachExampleIsUsedOnceOverAnyCuts(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		length, epoch := r.IntN(400), r.IntN(5)
		opts := []sampler.Option{sampler.Seed(seed)}
		if r.IntN(4) == 0 {
			opts = append(opts, sampler.InOrder())
		}
		used := make([]int, length)
		var cuts []sampler.Cut
		parts := 1 + r.IntN(8)
		for range r.IntN(8) {
			cut := sampler.Cut{Parts: parts, Used: make([]int, parts)}
			steps, batch := r.IntN(8), 1+r.IntN(9)
			for p := range parts {
				s := divide(t, length, cuts, parts, p, opts...)
				share := slices.Collect(s.Epoch(epoch))
				if len(share) != s.Len() {
					t.Fatalf("seed %d: part %d of %d after %v: got %d examples, Len says %d", seed, p, parts, cuts, len(share), s.Len())
				}
				n := min(len(share), steps*batch)
				if r.IntN(4) == 0 {
					n = r.IntN(n + 1)
				}
				for _, i := range share[:n] {
					used[i]++
				}
				if cut.Used[p] = n; n == len(share) && r.IntN(2) == 0 {
					cut.Used[p] += r.IntN(5) // more than there is stands for all
				}
			}
			cuts = append(cuts, cut)
			parts = 1 + r.IntN(8)
		}
		shortest, longest := length, 0
		for p := range parts {
			s := divide(t, length, cuts, parts, p, opts...)
			shortest, longest = min(shortest, s.Len()), max(longest, s.Len())
			for i := range s.Epoch(epoch) {
				used[i]++
			}
		}
		for i, n := range used {
			if n != 1 {
				t.Fatalf("seed %d: %d examples, cuts %v, then %d parts: example %d was used %d times, want once", seed, length, cuts, parts, i, n)
			}
		}
		if length > 0 && longest-shortest > 1 {
			t.Errorf("seed %d: shares of %d to %d examples after %v, want a difference of at most 1", seed, shortest, longest, cuts)
		}
	}
}

// Without cuts it is today's order; with cuts of which nobody used anything all is still there.
func TestDivideWithoutCutsIsSplit(t *testing.T) {
	for _, policy := range []sampler.Policy{sampler.Spread, sampler.Drop, sampler.Pad} {
		for part := range 3 {
			split, err := sampler.Split(50, 3, part, sampler.Seed(4), sampler.Remainder(policy), sampler.Epoch(2))
			if err != nil {
				t.Fatal(err)
			}
			s := divide(t, 50, nil, 3, part, sampler.Seed(4), sampler.Remainder(policy), sampler.Epoch(2))
			if got, want := slices.Collect(s.Epoch(1)), slices.Collect(split.Epoch(1)); !slices.Equal(got, want) {
				t.Errorf("%v part %d: got %v, want %v", policy, part, got, want)
			}
		}
	}
}

// Drop leaves out fewer than there are parts in the end, Pad leaves out none; both give equal
// shares.
func TestDropAndPadAfterCuts(t *testing.T) {
	for seed := range uint64(100) {
		for _, policy := range []sampler.Policy{sampler.Drop, sampler.Pad} {
			r := rand.New(rand.NewPCG(seed, 2))
			length := 1 + r.IntN(100)
			opts := []sampler.Option{sampler.Seed(seed), sampler.Remainder(policy)}
			used, repeats, parts := make([]int, length), 0, 0
			var cuts []sampler.Cut
			for last := range 4 {
				parts = 1 + r.IntN(6)
				cut := sampler.Cut{Parts: parts, Used: make([]int, parts)}
				for p := range parts {
					s := divide(t, length, cuts, parts, p, opts...)
					if want := divide(t, length, cuts, parts, 0, opts...).Len(); s.Len() != want {
						t.Fatalf("seed %d %v: shares of %d and %d examples after %v, want equal ones", seed, policy, want, s.Len(), cuts)
					}
					n := s.Len()
					if last < 3 {
						n = r.IntN(n + 1)
					}
					cut.Used[p] = n
					for _, i := range slices.Collect(s.Epoch(0))[:n] {
						used[i]++
					}
				}
				repeats += parts - 1
				cuts = append(cuts, cut)
			}
			missing, twice := 0, 0
			for _, n := range used {
				missing += max(1-n, 0)
				twice += max(n-1, 0)
			}
			switch {
			case policy == sampler.Drop && (missing >= parts || twice > 0):
				t.Errorf("seed %d: %d of %d examples left out with %d parts and %d used twice, want fewer than parts and none", seed, missing, length, parts, twice)
			case policy == sampler.Pad && (missing > 0 || twice > repeats):
				t.Errorf("seed %d: %d of %d examples left out and %d repeated, want none and at most %d", seed, missing, length, twice, repeats)
			}
		}
	}
}

// The shares after a cut are part of what a checkpoint means, as the order is.
func TestSharesAfterCutsArePinned(t *testing.T) {
	cuts := []sampler.Cut{{Parts: 2, Used: []int{4, 3}}, {Parts: 3, Used: []int{1, 0, 2}}}
	var got []string
	for p := range 2 {
		got = append(got, fmt.Sprint(slices.Collect(divide(t, 20, cuts, 2, p, sampler.Seed(42)).Epoch(1))))
	}
	if want := []string{"[6 5 3 9 18]", "[2 12 16 14 11]"}; !slices.Equal(got, want) {
		t.Errorf("seed 42, epoch 1, two parts of 20 after %v: got %v, want %v", cuts, got, want)
	}
}

func TestCutsThatCannotBeAreErrors(t *testing.T) {
	for _, c := range []struct {
		cut  sampler.Cut
		want string
	}{
		{sampler.Cut{}, "cut 0: got 0 parts"},
		{sampler.Cut{Parts: 2, Used: []int{1}}, "got 2 parts and counts of used examples for 1"},
		{sampler.Cut{Parts: 1, Used: []int{-1}}, "part 0 of 1 used -1, want at least 0"},
	} {
		if _, err := sampler.Divide(10, []sampler.Cut{c.cut}, 2, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Divide with %+v: got error %v, want one with %q", c.cut, err, c.want)
		}
	}
	if _, err := sampler.Divide(10, nil, 2, 2); err == nil {
		t.Error("Divide with part 2 of 2: got no error")
	}
}

func ExampleDivide() {
	// Two workers had used three and two examples of ten when a third one came.
	cuts := []sampler.Cut{{Parts: 2, Used: []int{3, 2}}}
	for part := range 3 {
		s, err := sampler.Divide(10, cuts, 3, part, sampler.InOrder())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(part, slices.Collect(s.Epoch(0)))
	}
	// Output:
	// 0 [3 4]
	// 1 [7 8]
	// 2 [9]
}
