package f32

import "fmt"

// The functions over columns are those of a softmax down the columns of a matrix: of attention's
// scores, whose rows are keys and whose columns are queries. A matrix has len(most), len(sum), ...
// columns; its rows follow each other. They are in assembly for matrices as wide as the path's tile.

// MaxColumns sets most to the larger of most and scale·x, for each column over the rows of x. What
// it does with a NaN is not said.
func MaxColumns(most, x []float32, scale float32) {
	checkColumns("MaxColumns", len(x), len(most), len(most))
	if !maxColumnsWide(kernels.tile.path, most, x, scale) {
		maxColumnsPortable(most, x, scale)
	}
}

// ExpColumns sets x to 2^(scale·x − shift), shift being that of the column, and adds the sums of
// columns to sum, row by row. Exponents are at most 127; numbers below 2^−126 become 0, also where
// scale·x is −∞; a NaN stays.
func ExpColumns(x, sum, shift []float32, scale float32) {
	checkColumns("ExpColumns", len(x), len(sum), len(shift))
	if !expColumnsWide(kernels.tile.path, x, sum, shift, scale) {
		expColumnsPortable(x, sum, shift, scale)
	}
}

// ExpColumnsGrad sets x to p = 2^(scale·x − shift), as ExpColumns does, and dx to p·(dx − delta),
// shift and delta being those of the column.
func ExpColumnsGrad(x, dx, shift, delta []float32, scale float32) {
	same2("ExpColumnsGrad", len(x), len(dx), len(dx))
	checkColumns("ExpColumnsGrad", len(x), len(shift), len(delta))
	if !expColumnsGradWide(kernels.tile.path, x, dx, shift, delta, scale) {
		expColumnsGradPortable(x, dx, shift, delta, scale)
	}
}

// ScaleColumns multiplies each column of x by its number.
func ScaleColumns(x, by []float32) {
	checkColumns("ScaleColumns", len(x), len(by), len(by))
	if !scaleColumnsWide(kernels.tile.path, x, by) {
		scaleColumnsPortable(x, by)
	}
}

func checkColumns(op string, n, a, b int) {
	if a == 0 || a != b || n%a != 0 {
		panic(fmt.Sprintf("f32: %s: %d values for columns of %d and %d numbers", op, n, a, b))
	}
}
