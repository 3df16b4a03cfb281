package suggest_test

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest"
)

func ExampleTPE() {
	space := tune.Space{
		tune.Real("learning rate", 1e-5, 1).Log(),
		tune.Choice("optimizer", "sgd", "adam"),
		tune.Real("momentum", 0, 0.99).When("optimizer", "sgd"),
	}
	result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		loss := (p.Float("learning rate") - 0.1) * (p.Float("learning rate") - 0.1)
		if p.Text("optimizer") == "adam" {
			loss++
		}
		return r.Report(1, map[string]float64{"loss": loss})
	}, tune.Config{Space: space, Metric: "loss", Mode: tune.Min, Samples: 60, Seed: 1, Suggester: &suggest.TPE{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	best := result.BestTrial().Params
	fmt.Printf("%s, learning rate %.1f\n", best.Text("optimizer"), best.Float("learning rate"))
	// Output: sgd, learning rate 0.1
}

// Each setting is tried with three seeds, and at most four trials run at once.
func ExampleRepeat() {
	s := &suggest.Limit{Max: 4, Suggester: &suggest.Repeat{Times: 3, Suggester: &suggest.GP{}}}
	fmt.Println(s.Validate())
	// Output: <nil>
}

// With several objectives a search has no best trial, but a front: trials that no other trial beats
// in all objectives.
func ExampleMOTPE() {
	result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		width, waste := p.Float("width"), p.Float("waste")
		return r.Report(1, map[string]float64{"error": 1/width + waste, "time": width + waste})
	}, tune.Config{
		Space:      tune.Space{tune.Real("width", 1, 10), tune.Real("waste", 0, 10)},
		Objectives: []tune.Objective{{Metric: "error", Mode: tune.Min}, {Metric: "time", Mode: tune.Min}},
		Samples:    60, Seed: 1, Suggester: &suggest.MOTPE{},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	wasted := 0
	for _, t := range result.Front() {
		if t.Params.Float("waste") > 2 {
			wasted++
		}
	}
	fmt.Println(len(result.Front()) > 5, wasted)
	// Output: true 0
}
