package costs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFitGoesThroughItsPoints(t *testing.T) {
	at := func(bytes, fixed, each float64) Point { return Point{bytes, fixed + bytes*each} }
	l := Fit(at(1000, 5e-6, 2e-10), at(1e6, 3e-5, 2e-10), at(4e6, 3e-5, 2e-10), at(4e6, 3e-5, 5e-10), 0.75)
	if got := fmt.Sprintf("%.3g", l); got != "{5e-06 3e-05 2e-10 6e-10}" {
		t.Errorf("got %+v, want 5 µs and 30 µs, 0.2 ns, and 0.6 ns of which three quarters are 0.3 ns more", l)
	}
	if l := Fit(Point{1000, 8e-6}, Point{2000, 9e-6}, Point{4000, 8e-6}, Point{4000, 1e-6}, 1); l.Byte >= 0 || l.Far >= l.Byte || l.Rising().Byte != 0 || l.Rising().Far != 0 {
		t.Errorf("falling costs: got %+v and %+v without what is negative, want no cost of a byte in this", l, l.Rising())
	}
}

// The part of a working set that does not fit the cache is read from memory.
func TestFarGrowsWithTheWorkingSet(t *testing.T) {
	for set, want := range map[float64]float64{0: 0, 32: 0, 64: 0.5, 320: 0.9} {
		if got := Far(set, 32); got != want {
			t.Errorf("%v bytes with a cache of 32: got %v, want %v", set, got, want)
		}
	}
	if got := (Line{Message: 1, Large: 7, Byte: 2, Far: 4}).Of(3, 10, 0.5); got != 33 {
		t.Errorf("got %v, want 3 messages and 10 bytes of 3", got)
	}
	if got := (Line{Message: 1, Large: 7, Byte: 2, Far: 4}).Of(2, 2*LargeBytes, 0); got != 14+4*LargeBytes {
		t.Errorf("got %v, want 2 large messages and 2 for each byte", got)
	}
}

func TestReadGivesWhatWasWritten(t *testing.T) {
	c := &Costs{Machine: "m", Cores: 2, Transports: map[string]Transport{"tcp": {PushWorker: Line{1e-6, 2e-6, 1e-10, 2e-10}}}, Sum: Line{Byte: 1e-10},
		Update: map[string]Line{"sgd": {Byte: 2e-10}}, Encode: map[string]Line{"fp16": {Byte: 1e-10}}, Decode: map[string]Line{"fp16": {Far: 1e-10}}}
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
	c.Update["sgd"] = Line{Far: -1}
	if err := c.Write(path); err == nil || !strings.Contains(err.Error(), "update sgd is -1 s") {
		t.Errorf("a negative cost: got error %v, want one that names it", err)
	}
}
