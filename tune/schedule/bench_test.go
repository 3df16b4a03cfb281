package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// Reports of a search that has many trials already.
//
//	go test ./tune/schedule -bench Report -run '^$'
func BenchmarkReport(b *testing.B) {
	for _, s := range []struct {
		name string
		make func() tune.Scheduler
	}{
		{"asha", func() tune.Scheduler { return &ASHA{MaxStep: 27} }},
		{"asha-guard", func() tune.Scheduler { return &ASHA{MaxStep: 27, Guard: &Guard{}} }},
		{"promotion", func() tune.Scheduler { return &ASHA{MaxStep: 27, Rule: Promotion} }},
		{"median", func() tune.Scheduler { return &MedianStopping{} }},
		{"percentile", func() tune.Scheduler { return &Percentile{} }},
	} {
		for _, trials := range []int{1000, 10000} {
			b.Run(fmt.Sprintf("scheduler=%s/trials=%d", s.name, trials), func(b *testing.B) {
				scheduler := s.make()
				v := &tunetest.View{}
				rng := rand.New(rand.NewPCG(1, 2))
				trial := func() (reports int) {
					t := v.Add(tune.Params{})
					q, rate := rng.Float64(), 0.1+0.3*rng.Float64()
					scheduler.Started(v, t.Number)
					for step := 1; step <= 27; step++ {
						v.Report(t, step, q*(1-1/(1+rate*float64(step))))
						if d := scheduler.Reported(v, t.Number, rng); d.Action != tune.Continue {
							v.End(t, tune.Pruned)
							scheduler.Ended(v, t.Number)
							return step
						}
					}
					v.End(t, tune.Completed)
					scheduler.Ended(v, t.Number)
					return 27
				}
				for range trials {
					trial()
				}
				reports := 0
				for b.Loop() {
					reports += trial()
				}
				b.ReportMetric(float64(reports)/b.Elapsed().Seconds(), "reports/s")
			})
		}
	}
}
