package conv

import "slices"

// An axis class is a set of output positions along one axis that use the same taps, at the same
// distances from each other.
type axisClass struct {
	// taps are in order of increasing input position.
	taps []int

	// delta is the input position of each tap, relative to the first.
	delta []int

	out []int // output positions

	// first has, for each of them, the input position of the first tap.
	first []int
}

// reach lists, for one output position of an axis, the taps that fall inside and the input position
// each meets.
type reach func(out int) (taps, in []int)

// forwardReach: output o meets input o·stride + tap·step − pad.
func forwardReach(in, taps, stride, pad, step int) reach {
	return func(o int) (t, at []int) {
		for r := range taps {
			if i := o*stride + r*step - pad; i >= 0 && i < in {
				t, at = append(t, r), append(at, i)
			}
		}
		return t, at
	}
}

// backwardReach: position i of dx meets position o of dy where i = o·stride + tap·step − pad.
func backwardReach(out, taps, stride, pad, step int) reach {
	return func(i int) (t, at []int) {
		for r := taps - 1; r >= 0; r-- {
			if o := i + pad - r*step; o >= 0 && o%stride == 0 && o/stride < out {
				t, at = append(t, r), append(at, o/stride)
			}
		}
		return t, at
	}
}

// axisClasses sorts the n output positions of an axis into classes.
func axisClasses(n int, f reach) []axisClass {
	var classes []axisClass
	for o := range n {
		taps, in := f(o)
		i := slices.IndexFunc(classes, func(c axisClass) bool { return slices.Equal(c.taps, taps) })
		if i < 0 {
			c := axisClass{taps: taps}
			for _, p := range in {
				c.delta = append(c.delta, p-in[0])
			}
			i, classes = len(classes), append(classes, c)
		}
		c := &classes[i]
		c.out = append(c.out, o)
		if len(in) > 0 {
			c.first = append(c.first, in[0])
		} else {
			c.first = append(c.first, 0)
		}
	}
	return classes
}

// tapOrder lists the taps that occur in any class such that taps that meet neighbouring input
// positions are neighbours, and returns the place of each tap, −1 for taps that never occur.
func tapOrder(taps int, classes []axisClass) (place []int, used int) {
	place = make([]int, taps)
	for i := range place {
		place[i] = -1
	}
	// Classes with most taps first, so that their taps stay together.
	sorted := slices.Clone(classes)
	slices.SortStableFunc(sorted, func(a, b axisClass) int { return len(b.taps) - len(a.taps) })
	for _, c := range sorted {
		for _, t := range c.taps {
			if place[t] < 0 {
				place[t] = used
				used++
			}
		}
	}
	return place, used
}
