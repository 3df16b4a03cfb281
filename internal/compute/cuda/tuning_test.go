package cuda_test

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
)

// The first start measures engines and says so, the second knows them and says nothing. Engines
// that fail when they are tried, and a library that refuses sums and mixed types in its own way,
// change no number.
func TestEnginesAreMeasuredOnceAndBadOnesLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "choices.json")
	machine := fake.New(t)
	machine.Set("cudnn_bad", 15)
	machine.Set("cudnn_beta", 2000)
	machine.Set("cudnn_mixed_types", 2000)
	var residual model
	for _, m := range models {
		if m.name == "residual" {
			residual = m
		}
	}
	var first []byte
	for start := range 2 {
		var lines bytes.Buffer
		gpu, err := cuda.Open(0, cuda.Options{Search: *machine.Search(), Choices: path, Repeat: 1, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		if err != nil {
			t.Fatal(err)
		}
		p := compile(t, residual, cuda.Config{GPU: gpu, Type: cuda.BFloat16})
		if said := lines.String(); strings.Contains(said, "measuring the fastest engines") != (start == 0) || strings.Contains(said, "chose engines for") != (start == 0) {
			t.Errorf("start %d: users are told %q", start, said)
		}
		r := reference(t, residual)
		for step := range 3 { // the second is captured
			p.fill(t, r, residual.classes, uint64(step))
			got := p.step(t)
			if err := r.Step(); err != nil {
				t.Fatal(err)
			}
			if want := r.Loss(); math.Abs(got-want) > 1e-2*math.Max(1, math.Abs(want)) {
				t.Errorf("start %d, step %d: loss is %g, want %g", start, step, got, want)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := gpu.Close(); err != nil {
			t.Error(err)
		}
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(written), `"sum of backward data `) {
			t.Errorf("start %d: the file has no choice of how to sum:\n%s", start, written)
		}
		if start == 0 {
			first = written
		} else if !bytes.Equal(written, first) {
			t.Errorf("the second start chose anew: got\n%s\nafter\n%s", written, first)
		}
	}
}
