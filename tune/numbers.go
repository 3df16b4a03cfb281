package tune

import "math"

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
