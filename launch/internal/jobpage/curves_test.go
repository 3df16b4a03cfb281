package jobpage

import (
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/page"
	"github.com/paragon-train/paragon/internal/telemetry"
)

// Workers report the newest scores with each record. Each evaluation is one point, also the first one where its score is 0, and no further one follows
// where a record did not come.
func TestAnEvaluationInThePastIsOnePoint(t *testing.T) {
	none := control.Number(math.NaN())
	s := &control.Series{
		StepMillis: 1000,
		Columns:    []control.Value{{Metric: telemetry.TestAccuracy.String()}},
		Nodes:      []control.NodeSeries{{Node: 1, Values: [][]control.Number{{none, 0, 0, 0.5, none, 0.5, 0.75}}}},
	}
	points := map[int64]map[string]page.Number{}
	addWorkers(s, 1, func(at int64) map[string]page.Number {
		points[at] = map[string]page.Number{}
		return points[at]
	})
	c := curves{page.Curves{}, scores{nan, nan}}
	c.merge(points)
	c.dropRepeatedTests()
	var got []int64
	for _, l := range c.Lines {
		for i, v := range l.Values {
			if l.ID == page.LineTestAccuracy && !math.IsNaN(float64(v)) {
				got = append(got, c.Times[i])
			}
		}
	}
	if want := []int64{1000, 3000, 6000}; !slices.Equal(got, want) {
		t.Errorf("got points of the accuracy at %v ms, want %v", got, want)
	}
}
