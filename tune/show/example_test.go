package show_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/show"
)

// search tries three numbers of layers, of which two is best. A trial whose loss is above 1.5 is
// stopped.
func search(observers ...tune.Observer) (*tune.Result, error) {
	return tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		for step := 1; step <= 2; step++ {
			loss := 1 + (p.Float("layers")-2)*(p.Float("layers")-2) - 0.25*float64(step)
			if err := r.Report(step, map[string]float64{"loss": loss}); err != nil {
				return err
			}
		}
		return nil
	}, tune.Config{
		Space: tune.Space{tune.Int("layers", 1, 3)}, Metric: "loss", Mode: tune.Min, Samples: 3,
		Points: []tune.Point{{"layers": 2}, {"layers": 1}, {"layers": 3}}, Scheduler: &schedule.Threshold{Upper: 1.5}, Observers: observers,
	})
}

// events keeps what happened, without the times.
type events []tune.Event

func (e *events) Observe(_ tune.View, what tune.Event) {
	what.At = 0
	*e = append(*e, what)
}

// Why a trial was stopped: each decision, with the rule and the trials that it was compared with.
func ExampleWhy() {
	var log events
	if _, err := search(&log); err != nil {
		fmt.Println(err)
		return
	}
	if err := show.Why(os.Stdout, log, 1); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 0s  trial 1 started with {layers: 1}: one of the points to be tried first
	//         0s  step 1: loss 1.75: stop (threshold at step 1); its value 1.75 against a cut-off of 1.5
	//         0s  attempt 1 ended as told
}

// Which parameter decides: its share of what makes the best fifth of the trials differ from all.
func ExampleImportances() {
	result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		return r.Report(1, map[string]float64{"loss": p.Float("rate") + 0.01*p.Float("width")})
	}, tune.Config{Space: tune.Space{tune.Real("rate", 0, 1), tune.Real("width", 0, 1)}, Metric: "loss", Mode: tune.Min, Samples: 50, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, i := range show.Importances(result.View()) {
		fmt.Printf("%s %.1f\n", i.Name, i.Share)
	}
	// Output:
	// rate 1.0
	// width 0.0
}

// Files for other programs: a table of the trials, and for each trial its parameters, its reports
// and TensorBoard's events.
func ExampleNewFiles() {
	dir, err := os.MkdirTemp("", "search")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	files := show.NewFiles(dir)
	if _, err := search(files); err != nil {
		fmt.Println(err)
		return
	}
	for _, pattern := range []string{"*.csv", "trials/*", "trials/trial-000000/*.json"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, file := range found {
			fmt.Println(filepath.Base(file))
		}
	}
	// Output:
	// trials.csv
	// trial-000000
	// trial-000001
	// trial-000002
	// params.json
	// result.json
}
