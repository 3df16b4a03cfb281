package suggest

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// A trial whose values stopped being finite ends as the worst, however good it was until then: its
// parameters are not proposed for that.
func TestATrialThatDivergedIsExpectedToEndWorst(t *testing.T) {
	v := &tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1)}, Last: true}
	for i := range 24 {
		x := math.Mod(0.5+float64(i)*0.618, 1)
		params, err := tune.NewParams("x", x)
		if err != nil {
			t.Fatal(err)
		}
		made, end := v.Add(params), tune.Completed
		for step := 1; step <= 10; step++ {
			value := (1 + x) * (1 - math.Exp(-float64(step)/4))
			if x > 0.6 && step == 6 {
				value, end = math.NaN(), tune.Pruned
			}
			if v.Report(made, step, value); end == tune.Pruned {
				break
			}
		}
		v.End(made, end)
	}
	g := &GP{}
	m, recs := g.reader.read(v)
	told := g.foretell(m, recs)
	for name, all := range map[string][]record{"by process": told.recs, "by steps": foretoldSteps(recs)} {
		worst, best := math.Inf(1), math.Inf(-1)
		for i := range all {
			if all[i].x[0] <= 0.6 {
				worst, best = min(worst, all[i].score), max(best, all[i].score)
			}
		}
		for i := range all { // the process is smooth, also where trainings begin to diverge
			if x := all[i].x[0]; x > 0.6 && all[i].score > (worst+best)/2 {
				t.Errorf("%s: trial %d at %.3f, which diverged, is expected to end with %.3f, want it among the worse ones of the others, %.3f to %.3f",
					name, i, x, all[i].score, worst, best)
			}
		}
	}
}
