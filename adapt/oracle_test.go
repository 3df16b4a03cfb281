package adapt

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// oracle reads reference numbers, which were computed from the formulas by an independent program.
func oracle(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("testdata/%s: %v", name, err)
	}
}

// near compares with a relative tolerance.
func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*math.Max(math.Abs(want), 1e-12)
}

// measure is the measurement of micro-gradients of one size.
func measure(grads [][]float64, scale float64) Measurement {
	m := Measurement{Count: len(grads), Scale: scale}
	mean := make([]float64, len(grads[0]))
	for _, g := range grads {
		m.MeanSqr += norm(g) / float64(len(grads))
		for i, x := range g {
			mean[i] += x / float64(len(grads))
		}
	}
	m.SqrMean = norm(mean)
	return m
}

// difference is the measurement of a step of one micro-gradient and the one before.
func difference(g, h []float64, scale float64) Measurement {
	mean := make([]float64, len(g))
	for i := range g {
		mean[i] = (g[i] + h[i]) / 2
	}
	return Difference(norm(g), norm(h), norm(mean), scale)
}

func norm(x []float64) (sum float64) {
	for _, v := range x {
		sum += v * v
	}
	return sum
}
