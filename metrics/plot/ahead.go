package plot

import (
	"image/color"
	"math"

	gonumplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/paragon-train/paragon/metrics"
)

// limits are the values between which what is expected is drawn.
type limits struct{ low, high float64 }

// bounds are those of all points, with some room: a band may be very wide.
func bounds(all []metrics.Series) limits {
	b := limits{math.Inf(1), math.Inf(-1)}
	for _, s := range all {
		for i, y := range s.Y {
			if i < len(s.X) && !math.IsNaN(y) && !math.IsInf(y, 0) {
				b.low, b.high = min(b.low, y), max(b.high, y)
			}
		}
	}
	room := 0.4 * (b.high - b.low)
	if !(room > 0) {
		room = max(math.Abs(b.high)*0.4, 0.4)
	}
	return limits{b.low - room, b.high + room}
}

func (b limits) clamp(y float64) float64 { return min(max(y, b.low), b.high) }

// ahead is the band and the dashed line from the last point of a series, if there is one.
func (b limits) ahead(s metrics.Series, xy plotter.XYs, shade color.NRGBA, width vg.Length) ([]gonumplot.Plotter, error) {
	a := s.Ahead
	if a == nil || len(xy) == 0 || math.IsNaN(a.X+a.Y+a.Low+a.High) || math.IsInf(a.X, 0) {
		return nil, nil
	}
	from := xy[len(xy)-1]
	band, err := plotter.NewPolygon(plotter.XYs{from, {X: a.X, Y: b.clamp(a.Low)}, {X: a.X, Y: b.clamp(a.High)}})
	if err != nil {
		return nil, err
	}
	faint := shade
	faint.A = 45
	band.Color, band.LineStyle.Width = faint, 0
	line, err := plotter.NewLine(plotter.XYs{from, {X: a.X, Y: b.clamp(a.Y)}})
	if err != nil {
		return nil, err
	}
	line.Color, line.Width, line.Dashes = shade, width, []vg.Length{4, 3}
	return []gonumplot.Plotter{band, line}, nil
}
