package transform

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/data/internal/pixel"
)

// A Filter weighs the pixels that make a pixel of a resized image. When an image shrinks, it is
// widened so that every pixel counts: what torchvision calls antialias.
type Filter uint8

const (
	// Bilinear is a triangle over 2 pixels, the default.
	Bilinear Filter = iota

	// Bicubic is a cubic over 4 pixels, with a = −0.5.
	Bicubic

	Lanczos // a windowed sinc over 6 pixels

	// Box is the mean of the pixels under the new one.
	Box
)

var filterNames = [...]string{"bilinear", "bicubic", "lanczos", "box"}

func (f Filter) String() string {
	if int(f) < len(filterNames) {
		return filterNames[f]
	}
	return fmt.Sprintf("Filter(%d)", uint8(f))
}

// ParseFilter returns the filter of a name: bilinear, bicubic, lanczos or box.
func ParseFilter(name string) (Filter, error) {
	for i, n := range filterNames {
		if n == name {
			return Filter(i), nil
		}
	}
	return 0, fmt.Errorf("transform: got filter %q, want bilinear, bicubic, lanczos or box", name)
}

func (f Filter) validate(of string) error {
	if int(f) >= len(filterNames) {
		return fmt.Errorf("transform: %s.Filter: got %v, want Bilinear, Bicubic, Lanczos or Box", of, f)
	}
	return nil
}

// support is how far from its centre a pixel still counts, in pixels of the larger image.
func (f Filter) support() float64 { return [...]float64{1, 2, 3, 0.5}[f] }

func (f Filter) at(x float64) float64 {
	switch f {
	case Bilinear:
		return max(0, 1-math.Abs(x))
	case Bicubic:
		const a = -0.5
		x = math.Abs(x)
		switch {
		case x < 1:
			return float64(float64((float64((a+2)*x)-(a+3))*x)*x) + 1
		case x < 2:
			return (float64((float64((x-5)*x)+8)*x) - 4) * a
		}
		return 0
	case Lanczos:
		if -3 <= x && x < 3 {
			return sinc(x) * sinc(x/3)
		}
		return 0
	default:
		if -0.5 < x && x <= 0.5 {
			return 1
		}
		return 0
	}
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

// weights make a row of out pixels of one of in pixels.
type weights struct {
	pixel.Weights
	in, out int
	filter  Filter
	scratch []float64
}

// fill computes the weights, unless they are those that it has. They are Pillow's: the centre of
// new pixel i is (i+½)·in/out. Products are rounded before they are added to (by float64), or
// processors that do both at once would give other weights.
func (w *weights) fill(in, out int, filter Filter) {
	if w.in == in && w.out == out && w.filter == filter && out > 0 {
		return
	}
	w.in, w.out, w.filter = in, out, filter
	scale := float64(in) / float64(out)
	wide := max(1, scale)
	support := filter.support() * wide
	w.Each = int(math.Ceil(support))*2 + 1
	w.First, w.Count = grown(w.First, out), grown(w.Count, out)
	w.Values, w.scratch = grown(w.Values, out*w.Each), grown(w.scratch, w.Each)
	inverse := 1 / wide
	for i := range out {
		center := float64((float64(i) + 0.5) * scale)
		from := max(0, int(center-support+0.5))
		to := min(in, int(center+support+0.5))
		sum := 0.0
		exact := w.scratch[:to-from]
		for j := range exact {
			v := filter.at(float64((float64(j+from) - center + 0.5) * inverse))
			exact[j] = v
			sum += v
		}
		w.First[i], w.Count[i] = int32(from), int32(to-from)
		values := w.Values[i*w.Each:][:to-from]
		for j, v := range exact {
			if sum != 0 {
				v /= sum
			}
			// Half a unit away from zero, then cut.
			if v < 0 {
				values[j] = int32(-0.5 + v*(1<<pixel.Fraction))
			} else {
				values[j] = int32(0.5 + v*(1<<pixel.Fraction))
			}
		}
	}
}

// grown returns s with n values, in its own memory if there is room.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
