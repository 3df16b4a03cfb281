package shard

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/internal/wire"
)

func TestNormsOfARoundAreThoseOfItsContributions(t *testing.T) {
	s, err := New(Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 5, Size: 5, Shards: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetMembers(1, []Member{{Node: 1, Rank: 0}, {Node: 2, Rank: 1}}); err != nil {
		t.Fatal(err)
	}
	a, b := []float32{1, 2, 3, 4, 5}, []float32{-2, 0.5, 1, 0, 7}
	push := func(node uint64, x []float32, weight float32) {
		data := s.pool.Get(4 * len(x))
		copy(data.Float32s(len(x)), x)
		if st, err := s.Push(Contribution{Generation: 1, Node: node, Seq: 1, Weight: weight, Data: data, Step: wire.Step{Measure: true}}); st != Held {
			t.Fatal(st, err)
		}
	}
	push(2, b, 3)
	push(1, a, 2)
	v, ok, err := s.TryPull(Want{Node: 1, Round: 1})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer v.Release()
	var sa, sb, sum float64
	for i := range a {
		sa += float64(a[i]) * float64(a[i])
		sb += float64(b[i]) * float64(b[i])
		sum += math.Pow(float64(a[i]+b[i]), 2)
	}
	want := wire.Norms{Count: 2, Examples: 5, MeanSqr: (sa/2 + sb/3) / 5, SqrMean: sum / 25}
	if got := v.Norms(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
