package costs

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFitGoesThroughBothSizes(t *testing.T) {
	l := Fit(1000, 5e-6+1000*2e-10, 1_000_000, 5e-6+1_000_000*2e-10)
	if l != (Line{5e-6, 2e-10}) {
		t.Errorf("got %+v, want 5 µs and 0.2 ns", l)
	}
	if l := Fit(1000, 8e-6, 2000, 7e-6); l.Byte != 0 || l.Message != 8e-6 {
		t.Errorf("falling costs: got %+v, want no cost of a byte", l)
	}
}

func TestReadGivesWhatWasWritten(t *testing.T) {
	c := &Costs{Machine: "m", Cores: 2, Transports: map[string]Transport{"tcp": {PushWorker: Line{1e-6, 1e-10}}}, Sum: 1e-10,
		Update: map[string]float64{"sgd": 2e-10}, Encode: map[string]float64{"fp16": 1e-10}, Decode: map[string]float64{"fp16": 1e-10}}
	path := filepath.Join(t.TempDir(), "costs.json")
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, got); d != "" {
		t.Error(d)
	}
	c.Update["sgd"] = -1
	if err := c.Write(path); err == nil || !strings.Contains(err.Error(), "update sgd is -1 s") {
		t.Errorf("a negative cost: got error %v, want one that names it", err)
	}
}
