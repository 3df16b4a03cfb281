package show

import "math"

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

var nan = math.NaN()
