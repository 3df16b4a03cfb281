package sampler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/sampler"
)

// randomBlocks returns where blocks of very unequal sizes begin, some of them empty.
func randomBlocks(r *rand.Rand, length int) []int {
	firsts := []int{0}
	for next := 0; ; {
		if next += r.IntN(1 + length/4 + r.IntN(4)); next > length {
			return firsts
		}
		if firsts = append(firsts, next); len(firsts) > 40 {
			return firsts
		}
	}
}

// orders are all kinds of order of so many examples.
func orders(r *rand.Rand, length int) []sampler.Order {
	return []sampler.Order{sampler.Contiguous, sampler.Permutation, sampler.Blocks(randomBlocks(r, length), 1+r.IntN(5)), sampler.Sequential}
}

// epochOf returns the whole epoch, as one part reads it.
func epochOf(t *testing.T, length, epoch int, opts ...sampler.Option) []int {
	t.Helper()
	s, err := sampler.Split(length, 1, 0, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(s.Epoch(epoch))
}

// remaining is the rule of Divide with plain lists: what is left of an epoch after the cuts, where
// part p of n has a contiguous run.
func remaining(epoch []int, cuts []sampler.Cut, policy sampler.Policy) []int {
	list := epoch
	for _, cut := range cuts {
		var next []int
		for p := range cut.Parts {
			own := partOf(list, cut.Parts, p, policy)
			next = append(next, own[min(cut.Used[p], len(own)):]...)
		}
		if policy == sampler.Drop {
			next = append(next, list[len(list)-len(list)%cut.Parts:]...)
		}
		list = next
	}
	return list
}

func partOf(list []int, parts, p int, policy sampler.Policy) (own []int) {
	n := len(list)
	start, size := n/parts*p, n/parts
	switch {
	case policy == sampler.Spread && p < n%parts:
		start, size = start+p, size+1
	case policy == sampler.Spread:
		start += n % parts
	case policy == sampler.Pad && n%parts > 0:
		start, size = (n/parts+1)*p, size+1
	}
	for i := range size {
		own = append(own, list[(start+i)%n])
	}
	return own
}

// The shares after any cuts are those of plain lists that are cut in the same way, for every policy
// and order.
func TestSharesAreThoseOfPlainLists(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		checkShares(t, r, r.IntN(300), seed)
	}
}

func checkShares(t *testing.T, r *rand.Rand, length int, seed uint64) {
	t.Helper()
	policy, epoch := sampler.Policy(r.IntN(3)), r.IntN(5)
	for _, order := range append(orders(r, length)[1:], sampler.Contiguous) {
		opts := []sampler.Option{sampler.Seed(seed), sampler.Ordered(order), sampler.Remainder(policy)}
		if order == sampler.Contiguous {
			opts = append(opts, sampler.InOrder()) // else a share is shuffled inside
		}
		all := epochOf(t, length, epoch, opts...)
		var cuts []sampler.Cut
		for range 1 + r.IntN(6) {
			parts := 1 + r.IntN(7)
			left := remaining(all, cuts, policy)
			cut := sampler.Cut{Parts: parts, Used: make([]int, parts)}
			for p := range parts {
				s := divide(t, length, cuts, parts, p, opts...)
				want := partOf(left, parts, p, policy)
				if got := slices.Collect(s.Epoch(epoch)); !slices.Equal(got, want) || s.Len() != len(want) {
					t.Fatalf("seed %d: %v, %v, %d examples, part %d of %d after %v: got %v (Len %d), want %v", seed, order, policy, length, p, parts, cuts, got, s.Len(), want)
				}
				skip := r.IntN(len(want) + 2)
				if got, want := slices.Collect(s.From(epoch, skip)), want[min(skip, len(want)):]; !slices.Equal(got, want) {
					t.Fatalf("seed %d: %v, part %d of %d after %v from %d: got %v, want %v", seed, order, p, parts, cuts, skip, got, want)
				}
				if cut.Used[p] = r.IntN(len(want) + 1); r.IntN(3) == 0 {
					cut.Used[p] = len(want) + r.IntN(3)
				}
			}
			cuts = append(cuts, cut)
		}
	}
}

// FuzzDivide divides a data set again and again, as the bytes say, and counts what the parts use.
func FuzzDivide(f *testing.F) {
	f.Add(uint16(100), uint64(1), uint8(0), uint8(1), []byte{2, 40, 30, 3, 1, 0, 7, 1})
	f.Add(uint16(7), uint64(2), uint8(1), uint8(2), []byte{5, 1, 1, 1, 1, 1, 1, 2, 0, 3})
	f.Add(uint16(0), uint64(3), uint8(2), uint8(0), []byte{1, 0})
	f.Fuzz(func(t *testing.T, n uint16, seed uint64, policy, kind uint8, moves []byte) {
		length := int(n % 2000)
		order := orders(rand.New(rand.NewPCG(seed, 4)), length)[kind%3]
		opts := []sampler.Option{sampler.Seed(seed), sampler.Ordered(order), sampler.Remainder(sampler.Policy(policy % 3))}
		used := make([]int, length)
		var cuts []sampler.Cut
		repeats, parts := 0, 1
		for len(moves) > 0 && len(cuts) < 20 {
			parts = 1 + int(moves[0]%9)
			cut := sampler.Cut{Parts: parts, Used: make([]int, parts)}
			moves = moves[1:]
			last := len(moves) <= parts || len(cuts) == 19
			for p := range parts {
				s := divide(t, length, cuts, parts, p, opts...)
				cut.Used[p] = s.Len()
				if !last {
					cut.Used[p] = min(int(moves[p]), s.Len())
				}
				share := make([]int, s.Len()+1)
				if got := s.Cursor(1, 0).Next(share); got != s.Len() {
					t.Fatalf("%v part %d of %d after %v: got %d examples, Len says %d", order, p, parts, cuts, got, s.Len())
				}
				for _, i := range share[:cut.Used[p]] {
					used[i]++
				}
			}
			repeats += parts - 1
			cuts = append(cuts, cut)
			if last {
				break
			}
			moves = moves[parts:]
		}
		if len(cuts) == 0 {
			return
		}
		missing, twice := 0, 0
		for _, n := range used {
			missing += max(1-n, 0)
			twice += max(n-1, 0)
		}
		wantMissing, wantTwice := 0, 0
		switch sampler.Policy(policy % 3) {
		case sampler.Drop:
			wantMissing = parts - 1
		case sampler.Pad:
			wantTwice = repeats
		}
		if missing > wantMissing || twice > wantTwice {
			t.Errorf("%v of %d after %v: %d examples were left out and %d used twice, want at most %d and %d", order, length, cuts, missing, twice, wantMissing, wantTwice)
		}
	})
}

// A billion rows and three changes of the membership: what remains is runs of positions, so no part
// needs memory for its share.
func TestABillionExamplesNeedNoList(t *testing.T) {
	const length = 1_000_000_000
	firsts := make([]int, length/10_000)
	for b := range firsts {
		firsts[b] = b * 10_000
	}
	cuts := []sampler.Cut{{Parts: 3, Used: []int{1e8, 1e8, 9e7}}, {Parts: 4, Used: []int{5e7, 5e7, 5e7, 0}}, {Parts: 2, Used: []int{1e7, 1e7}}}
	for _, order := range []sampler.Order{sampler.Permutation, sampler.Blocks(firsts, 16)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := sampler.Divide(length, cuts, 5, 4, sampler.Ordered(order), sampler.Seed(3))
		if err != nil {
			t.Fatal(err)
		}
		list := make([]int, 1000)
		ends := make([]int, 10)
		if n := s.Cursor(2, 0).Next(list); n != len(list) {
			t.Fatalf("%v: got %d examples, want %d", order, n, len(list))
		}
		if n := s.Cursor(2, s.Len()-4).Next(ends); n != 4 {
			t.Errorf("%v: got %d examples from the fourth last one on, want 4", order, n)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 10<<20 {
			t.Errorf("%v: %d bytes were allocated to divide %d examples after three cuts, want less than 10 MiB", order, got, length)
		}
		if want := (length - 290_000_000 - 150_000_000 - 20_000_000) / 5; s.Len() != want {
			t.Errorf("%v: a share of %d examples, want %d", order, s.Len(), want)
		}
	}
}

// A data set sorted by class: with Permutation the shares of a part have all classes, in each epoch
// other examples, and the two epochs of a part share about as many as chance says.
func TestAPartSeesAllClassesOfASortedSet(t *testing.T) {
	const length, classes, parts = 100_000, 100, 10
	s := func(p int) *sampler.Sampler {
		return divide(t, length, nil, parts, p, sampler.Ordered(sampler.Permutation), sampler.Seed(8))
	}
	for p := range parts {
		counts, in := make([]int, classes), make(map[int]bool)
		for i := range s(p).Epoch(0) {
			counts[i*classes/length]++
			in[i] = true
		}
		// Hypergeometric: 1000 of 100,000 are of a class, and 10,000 are drawn.
		mean, σ := 100.0, math.Sqrt(100*0.99*0.9)
		for class, n := range counts {
			if math.Abs(float64(n)-mean) > 5*σ {
				t.Errorf("part %d has %d examples of class %d, want %.0f ± %.1f", p, n, class, mean, σ)
			}
		}
		again := 0
		for i := range s(p).Epoch(1) {
			if in[i] {
				again++
			}
		}
		if mean, σ := 1000.0, math.Sqrt(1000*0.9*0.9); math.Abs(float64(again)-mean) > 5*σ {
			t.Errorf("part %d has %d examples of epoch 0 in epoch 1 as well, want %.0f ± %.1f", p, again, mean, σ)
		}
	}
}

// In an epoch of blocks, the examples at a window's positions are those of so many blocks, mixed;
// windows have other blocks in each epoch.
func TestBlocksAreReadWindowByWindow(t *testing.T) {
	const length, window = 1000, 4
	firsts := []int{0}
	for r := rand.New(rand.NewPCG(1, 1)); ; {
		if next := firsts[len(firsts)-1] + r.IntN(60); next < length {
			firsts = append(firsts, next)
		} else {
			break
		}
	}
	block := func(i int) int {
		k, found := slices.BinarySearch(firsts, i)
		for found && k+1 < len(firsts) && firsts[k+1] == i { // empty blocks
			k++
		}
		if !found {
			k--
		}
		return k
	}
	size := func(b int) int { return append(slices.Clone(firsts), length)[b+1] - firsts[b] }
	order := sampler.Blocks(firsts, window)
	var begins []int
	for epoch := range 4 {
		epochs := epochOf(t, length, epoch, sampler.Ordered(order), sampler.Seed(6))
		begins = append(begins, block(epochs[0]))
		for at := 0; at < length; {
			// A window ends where as many examples were read as its blocks have.
			in, want, n := map[int]bool{}, 0, 0
			for ; at+n < length && (n == 0 || n < want); n++ {
				if b := block(epochs[at+n]); !in[b] {
					in[b] = true
					want += size(b)
				}
			}
			if n != want || len(in) > window {
				t.Fatalf("epoch %d: from position %d on %d examples of %d blocks with %d examples follow each other, want all of at most %d blocks", epoch, at, n, len(in), want, window)
			}
			at += n
		}
		if slices.IsSorted(epochs[:20]) {
			t.Errorf("epoch %d begins with %v, want examples mixed inside the window", epoch, epochs[:20])
		}
	}
	if len(slices.Compact(begins)) < 2 {
		t.Errorf("all epochs begin with block %d", begins[0])
	}
}

func TestAnOrderHasANameThatCanBeRead(t *testing.T) {
	blocks := sampler.Blocks([]int{0, 4, 9}, 16)
	for _, order := range []sampler.Order{sampler.Permutation, sampler.Contiguous, sampler.Sequential, blocks, {}} {
		got, err := sampler.ParseOrder(order.String(), sampler.Permutation, blocks)
		if err != nil || got.String() != order.String() {
			t.Errorf("ParseOrder(%q): got %v, %v", order, got, err)
		}
		read, want := epochOf(t, 20, 1, sampler.Ordered(got)), epochOf(t, 20, 1, sampler.Ordered(order))
		if !slices.Equal(read, want) {
			t.Errorf("ParseOrder(%q): its order is %v, want %v", order, read, want)
		}
	}
	if got, err := sampler.ParseOrder(sampler.Blocks([]int{0, 4, 9}, 2).String(), blocks); err != nil || got.String() != sampler.Blocks([]int{0, 4, 9}, 2).String() {
		t.Errorf("the same blocks with another window: got %v, %v", got, err)
	}
	for name, want := range map[string]string{
		"":                                       "want permutation, contiguous, sequential or blocks",
		"shuffled":                               "want permutation, contiguous, sequential or blocks",
		"blocks of 3, window 0, starts 00":       "want permutation, contiguous, sequential or blocks",
		sampler.Blocks([]int{0, 5}, 16).String(): "it is of other blocks than those known (permutation; blocks of 3, window 16",
	} {
		if _, err := sampler.ParseOrder(name, sampler.Permutation, blocks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseOrder(%q): got error %v, want one with %q", name, err, want)
		}
	}
	if _, err := sampler.ParseOrder(blocks.String()); err == nil || !strings.Contains(err.Error(), "those known (none)") {
		t.Errorf("ParseOrder(%q) without known orders: got error %v", blocks, err)
	}
}

// FuzzParseOrder reads any name: what can be read has that name.
func FuzzParseOrder(f *testing.F) {
	blocks := sampler.Blocks([]int{0, 4, 9}, 16)
	for _, order := range []sampler.Order{sampler.Permutation, sampler.Contiguous, sampler.Sequential, blocks} {
		f.Add(order.String())
	}
	f.Fuzz(func(t *testing.T, name string) {
		if order, err := sampler.ParseOrder(name, blocks); err == nil && order.String() != name {
			t.Errorf("ParseOrder(%q) is %q", name, order)
		}
	})
}

// InOrder reads contiguous parts from end to end, whatever the order is, also after cuts.
func TestInOrderIsTheSameInEveryOrder(t *testing.T) {
	cuts := []sampler.Cut{{Parts: 3, Used: []int{2, 9, 4}}}
	for _, order := range orders(rand.New(rand.NewPCG(1, 1)), 50) {
		for part := range 2 {
			got := slices.Collect(divide(t, 50, cuts, 2, part, sampler.Ordered(order), sampler.InOrder()).Epoch(3))
			want := partOf(remaining(epochOf(t, 50, 0, sampler.InOrder()), cuts, sampler.Spread), 2, part, sampler.Spread)
			if !slices.Equal(got, want) || !slices.IsSorted(got) {
				t.Errorf("%v: part %d in order: got %v, want %v", order, part, got, want)
			}
		}
	}
}

// Sequential reads examples by their numbers, in every epoch and with any seed.
func TestSequentialMixesNothing(t *testing.T) {
	for part, want := range [][]int{{0, 1, 2, 3}, {4, 5, 6}} {
		s := divide(t, 7, nil, 2, part, sampler.Ordered(sampler.Sequential), sampler.Seed(9))
		if got := slices.Collect(s.Epoch(3)); !slices.Equal(got, want) {
			t.Errorf("part %d of 2: got %v, want %v", part, got, want)
		}
	}
}

func TestBlocksThatCannotBeAreErrors(t *testing.T) {
	for _, c := range []struct {
		order sampler.Order
		want  string
	}{
		{sampler.Blocks(nil, 1), "got no blocks"},
		{sampler.Blocks([]int{0}, 0), "got a window of 0 blocks, want at least 1"},
		{sampler.Blocks([]int{1, 2}, 1), "block 0 begins with example 1, want 0"},
		{sampler.Blocks([]int{0, 5, 4, 3}, 1), "block 2 begins with example 4, want at least 5"},
		{sampler.Blocks([]int{0, 5, 11}, 1), "block 2 begins with example 11, want at most 10"},
	} {
		if _, err := sampler.Divide(10, nil, 2, 1, sampler.Ordered(c.order)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want one with %q", c.order, err, c.want)
		}
	}
	if got := epochOf(t, 0, 0, sampler.Ordered(sampler.Blocks(nil, 1))); len(got) != 0 {
		t.Errorf("no examples in no blocks: got %v", got)
	}
}

func ExamplePermutation() {
	for epoch := range 2 {
		for part := range 3 {
			s, err := sampler.Split(10, 3, part, sampler.Ordered(sampler.Permutation))
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(epoch, part, slices.Collect(s.Epoch(epoch)))
		}
	}
	// Output:
	// 0 0 [5 3 9 7]
	// 0 1 [1 8 0]
	// 0 2 [4 6 2]
	// 1 0 [7 8 5 4]
	// 1 1 [6 9 3]
	// 1 2 [2 1 0]
}

// Measured on an AMD EPYC (Zen 4), as ns an index: go test -run '^$' -bench Index ./sampler
func BenchmarkIndex(b *testing.B) {
	for _, length := range []int{1e5, 1e9} {
		firsts := make([]int, length/1000)
		for k := range firsts {
			firsts[k] = 1000 * k
		}
		for _, order := range []sampler.Order{sampler.Contiguous, sampler.Permutation, sampler.Blocks(firsts, 16)} {
			if order == sampler.Contiguous && length > 1e5 {
				continue // it makes a list of them
			}
			name, _, _ := strings.Cut(order.String(), " ")
			b.Run(fmt.Sprintf("order=%s/examples=%d", name, length), func(b *testing.B) {
				s, err := sampler.Split(length, 1, 0, sampler.Ordered(order))
				if err != nil {
					b.Fatal(err)
				}
				list, n, e := make([]int, 64), 0, 0
				c := s.Cursor(e, 0)
				b.ResetTimer()
				for n < b.N {
					got := c.Next(list)
					if n += got; got == 0 {
						e++
						c = s.Cursor(e, 0)
					}
				}
			})
		}
	}
}
