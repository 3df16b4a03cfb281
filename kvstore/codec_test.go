package kvstore

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// The codes and residuals of these gradients were worked out by hand from the formula.
func TestCodesAreThoseOfTheFormula(t *testing.T) {
	for _, x := range []struct {
		c         Compression
		grad      []float32
		code      string
		says      []float32
		residuals []float32
	}{
		{Compression{Type: "2bit", Threshold: 0.5}, []float32{.6, -.7, .1, .5, -.5}, "e3800000",
			[]float32{.5, -.5, 0, .5, -.5}, []float32{.1, -.2, .1, 0, 0}},
		{Compression{Type: "1bit"}, []float32{.3, -.2, 0, 1.5, -2, .01, -.01, 4, .5}, "95800000",
			[]float32{1, -1, -1, 1, -1, 1, -1, 1, 1}, []float32{-.7, .8, 1, .5, -1, -.99, .99, 3, -.5}},
		{Compression{Type: "topk", Ratio: 0.2}, []float32{.3, -.2, 0, 1.5, -2, .01, -.01, 4, .5}, "0200000000000000000000c00000804004" + "02",
			[]float32{0, 0, 0, 0, -2, 0, 0, 4, 0}, []float32{.3, -.2, 0, 1.5, 0, .01, -.01, 0, .5}},
		{Compression{Type: "1bit", Threshold: 0.5}, []float32{.3, -.2, 0, 1.5, -2, .01, -.01, 4, .5}, "11000000", nil, nil},
		{Compression{Type: "1bit", Threshold: -0.5}, []float32{.3, -.2, 0, 1.5, -2, .01, -.01, 4, .5}, "f7800000", nil, nil},
	} {
		var r buffer.Aligned
		residual := make([]float32, len(x.grad))
		code := x.c.encode(&r, true, &f32.TopK{}, residual, x.grad)
		if got := fmt.Sprintf("%x", code); got != x.code {
			t.Errorf("%+v: got code %s, want %s", x.c, got, x.code)
		}
		says := make([]float32, len(x.grad))
		addDecoded(true, x.c, says, code, nil)
		if x.says != nil && !slices.Equal(says, x.says) {
			t.Errorf("%+v: the code says %v, want %v", x.c, says, x.says)
		}
		for i, want := range x.residuals {
			if d := math.Abs(float64(residual[i] - want)); d > 1e-6 {
				t.Errorf("%+v: residual %d: got %v, want %v", x.c, i, residual[i], want)
			}
		}
	}
}

func TestEncodedSizes(t *testing.T) {
	for _, x := range []struct {
		kind    string
		n, want int
	}{
		{"2bit", 1_466_521, 366_632}, {"1bit", 1_466_521, 4 * 45_829},
		{"2bit", 1_440_000, 4 * 90_000}, {"1bit", 1_440_000, 4 * 45_000},
		{"fp16", 7, 14}, {"bf16", 7, 14}, {"none", 7, 28}, {"2bit", 0, 0}, {"1bit", 1, 4},
		{"topk", 0, 0}, {"topk", 3, 12}, {"topk", 4, 13}, {"topk", 149, 17}, {"topk", 150, 8 + 2*9}, {"topk", 1_000_000, 8 + 10_000*9},
	} {
		if got := (Compression{Type: x.kind}).withDefaults().codeSize(x.n); got != x.want {
			t.Errorf("%s, %d values: got %d bytes, want %d", x.kind, x.n, got, x.want)
		}
	}
}

// Each local device keeps what its own code left out, and changing the compression forgets it.
func TestResidualsBelongToDevices(t *testing.T) {
	var f feedback
	c := Compression{Type: "2bit", Threshold: 0.5}
	sum, norms := make([]float32, 1), []float64{1, 1}
	f.sumOver(true, c, sum, [][]float32{{0.4}, {0.1}}, norms, 0)
	f.sumOver(true, c, sum, [][]float32{{0.2}, {0.2}}, norms, 0)
	if sum[0] != 0.5 { // 0.6 on the first device, 0.3 on the second
		t.Errorf("got %v, want 0.5", sum[0])
	}
	f.sumOver(true, Compression{Type: "2bit", Threshold: 0.25}, sum, [][]float32{{0.2}, {0.2}}, norms, 0)
	if sum[0] != 0 {
		t.Errorf("after another threshold: got %v, want 0", sum[0])
	}
}

func TestCompressionValidate(t *testing.T) {
	good := []Compression{{}, {Type: "none"}, {Type: "2bit"}, {Type: "2bit", Threshold: 2}, {Type: "1bit", Threshold: -1}, {Type: "fp16", Pull: "fp16"}, {Type: "bf16"},
		{Type: "2bit", Scale: 1}, {Type: "2bit", Scale: 1e-6}, {Type: "topk"}, {Type: "topk", Ratio: 1, Pull: "bf16"}, {Type: "2bit", Pull: "fp16"}, {Pull: "bf16"}, {Pull: "none"}}
	for _, c := range good {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: got error %v", c, err)
		}
	}
	nan := float32(math.NaN())
	for _, x := range []struct {
		c    Compression
		want string
	}{
		{Compression{Type: "2 bit"}, `"2 bit"`}, {Compression{Type: "2bit", Threshold: -0.5}, "got -0.5"}, {Compression{Type: "2bit", Threshold: nan}, "got NaN"},
		{Compression{Type: "1bit", Threshold: nan}, "got NaN"}, {Compression{Threshold: 1}, "got 1"}, {Compression{Type: "bf16", Threshold: 0.5}, "got 0.5"},
		{Compression{Type: "topk", Threshold: 0.5}, "got 0.5"}, {Compression{Type: "topk", Ratio: -0.1}, "ratio: got -0.1"},
		{Compression{Type: "topk", Ratio: 1.5}, "ratio: got 1.5"}, {Compression{Type: "topk", Ratio: math.NaN()}, "ratio: got NaN"},
		{Compression{Type: "2bit", Scale: -1}, "scale: got -1"}, {Compression{Type: "2bit", Scale: math.NaN()}, "scale: got NaN"},
		{Compression{Type: "2bit", Scale: 1e7}, "scale: got 1e+07"}, {Compression{Type: "2bit", Scale: 1e-7}, "scale: got 1e-07"},
		{Compression{Type: "2bit", Scale: 1, Threshold: 0.5}, "threshold 0.5"}, {Compression{Type: "1bit", Scale: 1}, "only 2bit"},
		{Compression{Type: "2bit", Ratio: 0.5}, "only topk"}, {Compression{Type: "1bit", Pull: "1bit"}, `"1bit" of values sent back`},
	} {
		if err := x.c.Validate(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: got error %v, want one with %q", x.c, err, x.want)
		}
	}
	for want, c := range map[string]Compression{
		"2bit scale 0.5": {Type: "2bit", Scale: 0.5}, "none": {}, "bf16": {Type: "bf16"}, "2bit threshold 0.5": {Type: "2bit"}, "1bit threshold -1": {Type: "1bit", Threshold: -1},
		"topk ratio 0.01, back fp16": {Type: "topk", Pull: "fp16"}, "none, back bf16": {Pull: "bf16"},
	} {
		if got := c.String(); got != want {
			t.Errorf("%#v: got %q, want %q", c, got, want)
		}
	}
	if got := (Compression{Type: "2bit"}).withDefaults().Threshold; got != 0.5 {
		t.Errorf("default threshold of 2bit: got %v, want 0.5", got)
	}
}
