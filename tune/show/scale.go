package show

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// A tick is a labelled place on a scale or an axis.
type tick struct {
	At    float64
	Text  string
	value float64
}

// A scale maps numbers to the page.
type scale struct {
	low, high, from, to float64
	log                 bool
}

// newScale maps low to from and high to to. It is logarithmic only where all numbers are above 0,
// and has some room where they are all equal: a scale of no width would divide by zero.
func newScale(low, high, from, to float64, log bool) scale {
	if log && low > 0 {
		low, high = math.Log(low), math.Log(high)
	} else {
		log = false
	}
	if !(high > low) {
		room := max(math.Abs(low)*0.05, 0.5)
		low, high = low-room, high+room
	}
	return scale{low, high, from, to, log}
}

// at is where a number is on the page.
func (s scale) at(x float64) float64 {
	if s.log {
		x = math.Log(x)
	}
	return s.from + (x-s.low)/(s.high-s.low)*(s.to-s.from)
}

// ticks are at four to nine round numbers, or at powers of ten.
func (s scale) ticks() []tick {
	var list []tick
	if s.log {
		for e := math.Floor(s.low / math.Ln10); e <= math.Ceil(s.high/math.Ln10); e++ {
			// The tolerance keeps the bounds' own powers, whose logarithms are rounded.
			if at := e * math.Ln10; at >= s.low-1e-9 && at <= s.high+1e-9 {
				list = append(list, s.tick(math.Pow(10, e)))
			}
		}
		if len(list) >= 2 {
			return list
		}
		// Within one power of ten the bounds say more than a single tick.
		return []tick{s.tick(math.Exp(s.low)), s.tick(math.Exp(s.high))}
	}
	step := math.Pow(10, math.Floor(math.Log10((s.high-s.low)/4)))
	for _, k := range []float64{5, 2} {
		if (s.high-s.low)/(step*k) >= 4 {
			step *= k
			break
		}
	}
	for k := math.Ceil(s.low / step); k*step <= s.high; k++ {
		list = append(list, s.tick(k*step))
	}
	return list
}

// tick is the one at a number.
func (s scale) tick(x float64) tick { return tick{s.at(x), short(x), x} }

// wholeTicks are the ticks at whole numbers: there is no half step.
func (s scale) wholeTicks() []tick {
	return slices.DeleteFunc(s.ticks(), func(t tick) bool { return math.Abs(t.value-math.Round(t.value)) > 1e-9*math.Abs(t.value) })
}

// short writes four digits, and a number of up to a million without an exponent: 0.25, 20000,
// 1e-05.
func short(x float64) string {
	switch a := math.Abs(x); {
	case a < 1e-12:
		return "0"
	case a >= 1e4 && a <= 1e6:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return fmt.Sprintf("%.4g", x)
}

// span is the least and greatest finite number.
func span(xs ...[]float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, list := range xs {
		for _, x := range list {
			if isFinite(x) {
				low, high = min(low, x), max(high, x)
			}
		}
	}
	if low > high {
		return 0, 1
	}
	return low, high
}
