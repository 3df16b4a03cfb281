package tune

import "math"

// ranked is the report by which a trial is ranked.
func (c *Config) ranked(t *Trial) (Report, bool) {
	if c.several() || c.Scope == LastReport {
		r, ok := t.Last()
		// Only a result at the highest level of a fidelity counts.
		if ok && r.Step < c.topStep() {
			return Report{}, false
		}
		return r, ok
	}
	if t.Best < 0 || t.Best >= len(t.Reports) {
		return Report{}, false
	}
	return t.Reports[t.Best], true
}

// result is the value by which a trial is ranked, or NaN.
func (c *Config) result(t *Trial) float64 {
	if r, ok := c.ranked(t); ok {
		return r.Value
	}
	return math.NaN()
}
