package schedule_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

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

// Pruners end one trial or the whole study: each trial after its third step, and the study when a
// loss is small enough. The fourth trial does not begin.
func ExampleAnyPruner() {
	result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		for step := 1; ; step++ {
			if err := r.Report(step, map[string]float64{"loss": p.Float("start") / float64(step)}); err != nil {
				return err
			}
		}
	}, tune.Config{
		Space: tune.Space{tune.Grid("start", 9, 6, 2, 1)}, Metric: "loss", Mode: tune.Min,
		Pruners: []tune.Pruner{schedule.AnyPruner{schedule.MaxStep(3), schedule.Reached{Value: 1}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range result.Trials() {
		fmt.Println(t.Params, t.State, "after", len(t.Reports), "reports")
	}
	// Output:
	// start=9 completed after 3 reports
	// start=6 completed after 3 reports
	// start=2 completed after 2 reports
}

// A population of four trials, trained in turns: at its second step the worst goes on from the best
// one's checkpoint, with another learning rate.
func ExamplePBT() {
	pbt := &schedule.PBT{Population: 4, Interval: 2}
	_, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		trained := 0.0
		from := 0
		if dir, step, ok := r.Restore(); ok {
			text, err := os.ReadFile(filepath.Join(dir, "trained"))
			if err != nil {
				return err
			}
			if trained, err = strconv.ParseFloat(string(text), 64); err != nil {
				return err
			}
			from = step
		}
		for step := from + 1; step <= 6; step++ {
			trained += p.Float("rate")
			err := r.Checkpoint(step, func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "trained"), strconv.AppendFloat(nil, trained, 'g', -1, 64), 0o666)
			})
			if err != nil {
				return err
			}
			if err := r.Report(step, map[string]float64{"accuracy": trained}); err != nil {
				return err
			}
		}
		return nil
	}, tune.Config{
		Space: tune.Space{tune.Real("rate", 0, 1)}, Metric: "accuracy", Mode: tune.Max, Seed: 1, Samples: 4, Scheduler: pbt,
		Points: []tune.Point{{"rate": 0.1}, {"rate": 0.4}, {"rate": 0.6}, {"rate": 0.8}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	first := pbt.Log()[0]
	fmt.Printf("trial %d goes on from trial %d at step %d, rate %.1f\n", first.Trial, first.Donor, first.DonorStep, first.Before.Float("rate"))
	// Output: trial 0 goes on from trial 3 at step 2, rate 0.1
}
