package optuna_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/optuna"
)

// A study of Optuna's begins a search here: its trials are known before the first one runs.
func ExampleFile_Import() {
	file, err := optuna.Read(strings.NewReader(`{"version": 1, "study_name": "mnist", "directions": ["maximize"], "metric_names": ["accuracy"], "trials": [
		{"number": 0, "state": "COMPLETE", "values": [0.91], "params": {"lr": 0.01},
		 "distributions": {"lr": {"name": "FloatDistribution", "attributes": {"low": 0.0001, "high": 0.1, "log": true, "step": null}}},
		 "intermediate_values": {"1": 0.7, "2": 0.91}, "user_attrs": {}, "system_attrs": {}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	study, err := tune.NewStudy(tune.Config{
		Name: "mnist", Metric: "accuracy", Mode: tune.Max, Samples: 20, Seed: 1,
		Space: tune.Space{tune.Real("lr", 1e-4, 1e-1).Log()},
	})
	if err != nil {
		log.Fatal(err)
	}
	added, left, err := file.Import(study, tune.BestReport)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("added", added, "left out", left)
	// Output: added 1 left out 0
}
