package suggest

import "math"

// penalise lowers the scores of trials that violate constraints below those of all feasible ones,
// in the order of their violations. If there is no feasible one, the violation alone counts.
func penalise(data []*record, scores []float64) {
	low, high, most, feasible := math.Inf(1), math.Inf(-1), 0.0, false
	for i, r := range data {
		switch {
		case r.violation > 0:
			if !math.IsInf(r.violation, 1) {
				most = max(most, r.violation)
			}
		default:
			feasible = true
			if !math.IsNaN(scores[i]) && !math.IsInf(scores[i], 0) {
				low, high = min(low, scores[i]), max(high, scores[i])
			}
		}
	}
	unit := 1.0
	switch {
	case low > high:
		low = 0
	case high > low:
		unit = (high - low) / 4
	}
	for i, r := range data {
		switch {
		case r.violation == 0:
		case !feasible:
			scores[i] = -min(r.violation, 2*most)
		default:
			scores[i] = low - unit*(0.1+min(r.violation/max(most, 1e-300), 2))
		}
	}
}
