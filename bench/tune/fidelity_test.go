package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// No point of the space is better than the one that is said to be the best, and the lower forms are
// others.
func TestFunctionsWithCheaperFormsHaveTheirBestPoint(t *testing.T) {
	for _, f := range faithfuls {
		rng := rand.New(rand.NewPCG(1, 1))
		best, other := f.value(f.best, 1), false
		for range 20000 {
			x := make([]float64, f.dims)
			for i := range x {
				x[i] = min(max(f.best[i]+(rng.Float64()-0.5)*rng.Float64()*rng.Float64(), 0), 1)
			}
			if v := f.value(x, 1); v > best+1e-3 {
				t.Fatalf("%s: %v at %v, want at most %v at %v", f.name, v, x, best, f.best)
			}
			other = other || f.value(x, 0.1) != f.value(x, 1)
		}
		if !other {
			t.Errorf("%s: it is the same at each fidelity", f.name)
		}
	}
}

func TestFidelityTable(t *testing.T) {
	args := []string{"--fidelities", "--suggesters", "random", "--workers", "1,3", "--seeds", "2", "--trainings", "8"}
	var out, again strings.Builder
	if err := run(args, &out); err != nil {
		t.Fatal(err)
	}
	if err := run(args, &again); err != nil {
		t.Fatal(err)
	}
	if out.String() != again.String() {
		t.Errorf("the same seeds give\n%s\nand\n%s", out.String(), again.String())
	}
	for _, want := range []string{"Branin", "Borehole", "promotion", "hyperband", "none", "100 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Errorf("the table has what is no number:\n%s", out.String())
	}
}
