package forecast

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// A line is Bayesian regression of a later score on features, in units of the curves that it was
// learnt from (Bishop 2006, section 3.3; the noise with its conjugate prior).
type line struct {
	// mean and unit are those of the features.
	mean, unit []float64
	y, unitY   float64
	// beta are the weights of the intercept and the features.
	beta []float64
	// factor is the Cholesky factor of the weights' precision, by rows.
	factor   [][]float64
	variance float64
}

// The prior of a line, in units of the deviations: order mostly remains, and a third of the
// variance does not come from before. It weighs as much as priorPairs curves.
const (
	priorSlope    = 0.8
	priorVariance = 0.35
	priorPairs    = 4
	// priorSpread is of the intercept, the slope and the weight of the gain, and priorInputs of
	// the weight of each parameter.
	priorSpread = 0.3
	priorInputs = 0.2
)

// newLine learns from rows of features and the scores that followed them. There is at least one
// row.
func newLine(rows [][]float64, ys []float64) *line {
	n := len(rows[0])
	l := &line{mean: make([]float64, n), unit: make([]float64, n), beta: make([]float64, n+1), factor: make([][]float64, n+1)}
	column := make([]float64, len(rows))
	for j := range l.mean {
		for i, r := range rows {
			column[i] = r[j]
		}
		l.mean[j], l.unit[j] = spread(column)
	}
	l.y, l.unitY = spread(ys)
	scatter := priorPairs * priorVariance
	for j := range l.factor {
		l.factor[j] = make([]float64, j+1)
		deviation := priorSpread
		if j > 2 {
			deviation = priorInputs
		}
		l.factor[j][j] = priorVariance / (deviation * deviation)
	}
	l.beta[1] = l.factor[1][1] * priorSlope
	scatter += l.beta[1] * priorSlope
	phi := make([]float64, n+1)
	for i, r := range rows {
		l.phi(phi, r)
		y := (ys[i] - l.y) / l.unitY
		for j, x := range phi {
			floats.AddScaled(l.factor[j], x, phi[:j+1])
		}
		floats.AddScaled(l.beta, y, phi)
		scatter += y * y
	}
	for i, row := range l.factor {
		for j := range i {
			row[j] = (row[j] - floats.Dot(row[:j], l.factor[j][:j])) / l.factor[j][j]
		}
		row[i] = math.Sqrt(max(row[i]-floats.Dot(row[:i], row[:i]), 1e-12))
	}
	l.solve(l.beta)
	scatter -= floats.Dot(l.beta, l.beta)
	for i := n; i >= 0; i-- {
		l.beta[i] /= l.factor[i][i]
		floats.AddScaled(l.beta[:i], -l.beta[i], l.factor[i][:i])
	}
	l.variance = max(scatter, 1e-9) / float64(priorPairs+len(rows))
	return l
}

// solve replaces b by the factor's inverse times b.
func (l *line) solve(b []float64) {
	for i, row := range l.factor {
		b[i] = (b[i] - floats.Dot(row[:i], b[:i])) / row[i]
	}
}

// phi sets the features of a row in the line's units, the intercept's first.
func (l *line) phi(phi, row []float64) {
	phi[0] = 1
	for j, x := range row {
		phi[j+1] = (x - l.mean[j]) / l.unit[j]
	}
}

// slope is how much the prediction grows with the first feature.
func (l *line) slope() float64 { return l.beta[1] * l.unitY / l.unit[0] }

// predict is the score to expect behind a row, with the deviation of a single curve.
func (l *line) predict(row []float64) Normal {
	phi := make([]float64, len(l.beta))
	l.phi(phi, row)
	mean := floats.Dot(phi, l.beta)
	l.solve(phi)
	share := 1 + floats.Dot(phi, phi)
	return Normal{l.y + l.unitY*mean, max(l.unitY*math.Sqrt(l.variance*share), 1e-12)}
}
