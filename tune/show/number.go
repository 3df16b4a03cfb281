package show

import "math"

// isFinite says whether a number is neither NaN nor infinite.
func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// nan stands for a value that there is not.
var nan = math.NaN()
