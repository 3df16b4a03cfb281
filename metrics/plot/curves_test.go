package plot

import (
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gonumplot "gonum.org/v1/plot"

	"github.com/paragon-train/paragon/metrics"
)

// drawn draws the panels and returns the picture.
func drawn(t *testing.T, panels ...metrics.Panel) image.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "curves.png")
	if err := Curves(path, panels...); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// inked counts the pixels of a palette colour.
func inked(img image.Image, shade int) int {
	n, want := 0, palette[shade]
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			if uint8(r>>8) == want.R && uint8(g>>8) == want.G && uint8(b>>8) == want.B {
				n++
			}
		}
	}
	return n
}

// A series that is expected to go on has a dashed line and a band there, and a band that is very
// wide leaves the curves their room.
func TestASeriesGoesOnToItsExpectedEnd(t *testing.T) {
	s := metrics.Series{Name: "trial", X: []float64{1, 2, 3}, Y: []float64{0, 0.5, 0.75}}
	alone := drawn(t, metrics.Panel{Series: []metrics.Series{s}})
	s.Ahead = &metrics.Ahead{X: 9, Y: 1, Low: 0.75, High: 1.25}
	path := filepath.Join(t.TempDir(), "curves.svg")
	if err := Curves(path, metrics.Panel{Series: []metrics.Series{s}}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(b), "stroke-dasharray") || !strings.Contains(string(b), "fill-opacity:0.17") {
		t.Errorf("the picture has no dashed line or no band (%v): %.3000s", err, b)
	}
	s.Ahead = &metrics.Ahead{X: 4, Y: 0.8, Low: -1e6, High: 1e6}
	if got, want := inked(drawn(t, metrics.Panel{Series: []metrics.Series{s}}), 0), inked(alone, 0)/3; got < want {
		t.Errorf("with a very wide band the curve has %d pixels, want at least %d", got, want)
	}
	p, err := newPlot(metrics.Panel{Series: []metrics.Series{s}})
	if err != nil || p.Y.Max > 1.2 || p.Y.Min < -0.5 {
		t.Errorf("with a very wide band the axis goes from %v to %v (%v), want it near the curves", p.Y.Min, p.Y.Max, err)
	}
	s.Ahead = &metrics.Ahead{X: 4, Y: math.NaN()}
	drawn(t, metrics.Panel{Series: []metrics.Series{s, {Faint: true, Ahead: s.Ahead}}})
}

func TestCurvesDrawEverySeriesOfEveryPanel(t *testing.T) {
	var x, y []float64
	for i := range 500 {
		x, y = append(x, float64(i)), append(y, math.Exp(-float64(i)/100)+0.1*math.Sin(float64(i)))
	}
	y[3], y[4] = math.NaN(), math.Inf(1) // left out
	img := drawn(t,
		metrics.Panel{Title: "loss", X: "step", Y: "loss", Series: []metrics.Series{{Name: "train", X: x, Y: y, Smooth: 21}}},
		metrics.Panel{Title: "accuracy", X: "epoch", Y: "accuracy", Percent: true, Series: []metrics.Series{
			{Name: "train", X: []float64{0, 1, 2}, Y: []float64{0.1, 0.5, 0.7}},
			{Name: "test", X: []float64{0, 1, 2}, Y: []float64{0.1, 0.4, 0.6}}}})
	if b := img.Bounds(); b.Dx() < 2*b.Dy() {
		t.Errorf("size: got %v, want two panels side by side", b)
	}
	for shade := range 2 {
		if n := inked(img, shade); n < 500 {
			t.Errorf("series %d: got %d pixels of its colour, want a line of it", shade, n)
		}
	}
}

func TestCurvesDrawWhatHasNoExtent(t *testing.T) {
	for name, p := range map[string]metrics.Panel{
		"no series":   {Title: "none"},
		"no points":   {Series: []metrics.Series{{Name: "none"}}},
		"only NaN":    {Series: []metrics.Series{{Name: "NaN", X: []float64{1}, Y: []float64{math.NaN()}}}},
		"one point":   {Series: []metrics.Series{{Name: "one", X: []float64{1}, Y: []float64{2}}}, Percent: true},
		"level line":  {Series: []metrics.Series{{Name: "level", X: []float64{1, 2}, Y: []float64{0, 0}}}},
		"large range": {Series: []metrics.Series{{Name: "large", X: []float64{1, 1e12}, Y: []float64{-1e30, 1e30}}}},
	} {
		t.Run(name, func(t *testing.T) { drawn(t, p) })
	}
}

func TestCurvesThatCannotBeDrawnAreErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "curves.png")
	for want, err := range map[string]error{
		"got no panels":               Curves(path),
		`series "a": got 2 X and 1 Y`: Curves(path, metrics.Panel{Series: []metrics.Series{{Name: "a", X: []float64{1, 2}, Y: []float64{1}}}}),
		path:                          Curves(path, metrics.Panel{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

func TestTicksAreRoundNumbers(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		ticks     ticks
		want      string
	}{
		{0, 4, ticks{}, "0 1 2 3 4"},
		{0, 2000, ticks{}, "0 500 1000 1500 2000"},
		{0.05, 2.45, ticks{}, "0.5 1 1.5 2"},
		{0.4, 0.74, ticks{percent: true}, "40 % 45 % 50 % 55 % 60 % 65 % 70 %"},
		{-1, 1, ticks{}, "-1 -0.5 0 0.5 1"},
		{0, 1e6, ticks{}, "0 200000 400000 600000 800000 1e+06"},
		{1, 3, ticks{whole: true}, "1 2 3"},
		{0.95, 1.05, ticks{whole: true}, "1"},
		{0, 2000, ticks{whole: true}, "0 500 1000 1500 2000"},
	} {
		var got []string
		for _, k := range c.ticks.Ticks(c.low, c.high) {
			got = append(got, k.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v to %v: got %s, want %s", c.low, c.high, fmt.Sprint(got), c.want)
		}
	}
}

// Steps are whole numbers, and have no tick at 1.5. Parts of epochs may.
func TestWholeNumbersHaveWholeTicks(t *testing.T) {
	steps, parts := metrics.Series{X: []float64{1, 2, 3}, Y: []float64{0, 0.5, 1}}, metrics.Series{X: []float64{0.5, 1}, Y: []float64{0, 1}}
	for _, c := range []struct {
		series []metrics.Series
		want   gonumplot.Ticker
	}{{[]metrics.Series{steps}, ticks{whole: true}}, {[]metrics.Series{parts}, ticks{}}, {[]metrics.Series{steps, parts}, ticks{}}} {
		p, err := newPlot(metrics.Panel{Series: c.series})
		if err != nil || p.X.Tick.Marker != c.want {
			t.Errorf("%v: got ticks %+v and error %v, want %+v", c.series, p.X.Tick.Marker, err, c.want)
		}
	}
}

// The first series hides the others where they cross, if the panel says so.
func TestTheFirstSeriesMayBeOnTop(t *testing.T) {
	x := []float64{0, 1, 2}
	for _, top := range []bool{false, true} {
		img := drawn(t, metrics.Panel{FirstOnTop: top, Series: []metrics.Series{{Name: "first", X: x, Y: x}, {Name: "second", X: x, Y: x}, {X: x, Y: x, Faint: true}}})
		if first, second := inked(img, 0), inked(img, 1); (first > 3*second) != top || (second > 3*first) == top {
			t.Errorf("FirstOnTop %t: got %d pixels of the first of two equal series and %d of the second", top, first, second)
		}
	}
}
