package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// square returns the square of a random float32, of any size.
func square(r *rand.Rand) float64 {
	x := float64(math.Float32frombits(r.Uint32() &^ (1 << 31)))
	for !(x <= math.MaxFloat32) {
		x = float64(math.Float32frombits(r.Uint32() &^ (1 << 31)))
	}
	return x * x
}

// The sum is that of rational numbers, rounded once, in any order and in any parts.
func TestTheSumIsExactInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for range 200 {
		list := make([]float64, 1+r.IntN(100))
		rational := new(big.Rat)
		for i := range list {
			if list[i] = square(r); r.IntN(3) == 0 {
				list[i] = r.Float64()
			}
			rational.Add(rational, new(big.Rat).SetFloat64(list[i]))
		}
		want, _ := rational.Float64()
		var whole Sum
		for _, x := range list {
			whole.Add(x)
		}
		r.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		var parts [3]Sum
		for i, x := range list {
			parts[i%3].Add(x)
		}
		sent, ok := OfDigits(parts[2].Digits())
		parts[0].Merge(&parts[1])
		parts[0].Merge(&sent)
		if got := whole.Total(); !ok || got != want || parts[0].Total() != want {
			t.Fatalf("got %v, and %v in parts; want %v", got, parts[0].Total(), want)
		}
		if !slices.Equal(parts[0].Digits(), whole.Digits()) {
			t.Fatal("the digits of the parts' sum are others")
		}
	}
}

func TestTheEndsOfTheRange(t *testing.T) {
	small := float64(math.SmallestNonzeroFloat32) * float64(math.SmallestNonzeroFloat32)
	large := float64(math.MaxFloat32) * float64(math.MaxFloat32)
	var s Sum
	s.Add(small)
	if s.Total() != small {
		t.Errorf("the smallest square: got %v, want %v", s.Total(), small)
	}
	s.Add(0)
	s.Add(large)
	if s.Total() != large {
		t.Errorf("with the largest: got %v, want %v", s.Total(), large)
	}
	var many Sum
	for range 100 {
		many.Add(large * (1 << 20))
	}
	if got, want := many.Total(), large*(1<<20)*100; math.Abs(got-want) > 1e-15*want {
		t.Errorf("a hundred times the largest: got %v, want %v", got, want)
	}
	many.limbs[0] = 0
	many.added = mostAdded - 1
	before := many.Total()
	many.added = mostAdded - 1
	many.Add(small)
	if many.added != 0 || many.Total() < before {
		t.Errorf("digits were not carried: %d additions", many.added)
	}
}

func TestWhatIsNotANumberIsNotASum(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxFloat64} {
		var s, other Sum
		s.Add(x)
		other.Add(1)
		other.Merge(&s)
		sent, ok := OfDigits(s.Digits())
		if !math.IsNaN(s.Total()) || !math.IsNaN(other.Total()) || !ok || !math.IsNaN(sent.Total()) {
			t.Errorf("%v: got %v, merged %v, sent %v; want NaN", x, s.Total(), other.Total(), sent.Total())
		}
	}
	if _, ok := OfDigits(make([]uint32, Limbs+1)); ok {
		t.Error("a digit too many was taken")
	}
}
