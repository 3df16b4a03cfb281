package schedule_test

import (
	"context"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
)

// Of sixteen trials few are trained to the end, and the best of them is.
func ExampleASHA() {
	space := tune.Space{tune.Grid("quality", tune.Range(1, 17, 1)...)}
	result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		for epoch := 1; epoch <= 27; epoch++ {
			accuracy := float64(p.Int("quality")) / 16 * (1 - math.Exp(-float64(epoch)/5))
			if err := r.Report(epoch, map[string]float64{"accuracy": accuracy}); err != nil {
				return err
			}
		}
		return nil
	}, tune.Config{Space: space, Metric: "accuracy", Mode: tune.Max, Scheduler: &schedule.ASHA{MaxStep: 27, Guard: &schedule.Guard{}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("best quality:", result.BestTrial().Params.Int("quality"))
	// Output: best quality: 16
}

func ExampleHyperbandTable() {
	table, err := schedule.HyperbandTable(schedule.PaperTable, 9, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range table {
		fmt.Println(b.S, b.Rounds)
	}
	// Output:
	// 2 [{9 1} {3 3} {1 9}]
	// 1 [{5 3} {1 9}]
	// 0 [{3 9}]
}
