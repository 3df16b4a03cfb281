package suggest

import "math"

// A dim is one parameter as the models see it. Values are plain float64s: a real or integer itself,
// the index of a choice, 0 or 1 for a bool. NaN stands for a parameter that a trial did not have.
//
// The models work in inner units: the logarithm of the value for a log parameter, else the value.
type dim struct {
	name string
	// lo and hi are inclusive bounds in values, ±Inf for a normal parameter.
	lo, hi float64
	log    bool
	// step is the distance of neighbouring values, counted from lo. Zero is continuous.
	step float64
	// choices is the number of values of a choice, for which none of the above holds. Zero is a
	// number.
	choices int

	// A normal parameter has no bounds; mean and sd are in inner units, and sd > 0 marks it.
	mean, sd float64
}

// normal says whether the parameter has a normal distribution, and no bounds.
func (d *dim) normal() bool { return d.sd > 0 }

// inner maps a value to inner units.
func (d *dim) inner(v float64) float64 {
	if d.log {
		return math.Log(v)
	}
	return v
}

// value maps inner units to the nearest value that the parameter can have.
func (d *dim) value(x float64) float64 {
	if d.choices > 0 {
		return min(max(math.Floor(x), 0), float64(d.choices-1))
	}
	if d.log {
		x = math.Exp(x)
	}
	return d.snap(x)
}

// snap moves v to the nearest value inside the bounds.
func (d *dim) snap(v float64) float64 {
	if d.step > 0 {
		origin := d.lo
		if math.IsInf(origin, -1) {
			origin = 0
		}
		v = origin + math.Round((v-origin)/d.step)*d.step
		if v > d.hi {
			v = origin + math.Floor((d.hi-origin)/d.step*(1+1e-12))*d.step
		}
	}
	return min(max(v, d.lo), d.hi)
}

// wide are the bounds in inner units; those of a stepped parameter reach half a step further on
// each side, so that the outermost values have a cell as wide as the others.
func (d *dim) wide() (lo, hi float64) {
	if d.normal() {
		return math.Inf(-1), math.Inf(1)
	}
	lo, hi = d.lo, d.hi
	if d.step > 0 {
		lo, hi = d.lo-d.step/2, d.hi+d.step/2
		if d.log && lo <= 0 {
			lo = d.lo
		}
	}
	return d.inner(lo), d.inner(hi)
}

// cell are the ends of a stepped value's cell in inner units, inside the wide bounds.
func (d *dim) cell(v float64) (a, b float64) {
	lo, hi := d.wide()
	a, b = v-d.step/2, v+d.step/2
	if d.log {
		if a <= 0 {
			return lo, min(math.Log(b), hi)
		}
		a, b = math.Log(a), math.Log(b)
	}
	return max(a, lo), min(b, hi)
}

// size is the number of values, or +Inf.
func (d *dim) size() float64 {
	switch {
	case d.choices > 0:
		return float64(d.choices)
	case d.lo == d.hi:
		return 1
	case d.step > 0 && !d.normal():
		return math.Floor((d.hi-d.lo)/d.step*(1+1e-12)) + 1
	}
	return math.Inf(1)
}

// fromUnit maps u in [0, 1) to a value, so that a uniform u gives the parameter's own distribution.
func (d *dim) fromUnit(u float64) float64 {
	switch {
	case d.choices > 0:
		return d.value(u * float64(d.choices))
	case d.normal():
		u = min(max(u, 1e-12), 1-1e-12)
		return d.value(d.mean + d.sd*normalQuantile(u))
	}
	lo, hi := d.wide()
	return d.value(lo + u*(hi-lo))
}

// toUnit is the inverse of fromUnit; of a stepped value or a choice it is the middle of the cell.
func (d *dim) toUnit(v float64) float64 {
	switch {
	case d.choices > 0:
		return (v + 0.5) / float64(d.choices)
	case d.normal():
		return normalCDF((d.inner(v) - d.mean) / d.sd)
	}
	lo, hi := d.wide()
	if hi <= lo {
		return 0.5
	}
	if d.step > 0 {
		a, b := d.cell(v)
		return ((a+b)/2 - lo) / (hi - lo)
	}
	return (d.inner(v) - lo) / (hi - lo)
}
