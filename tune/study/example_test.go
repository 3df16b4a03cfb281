package study_test

import (
	"fmt"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/study"
)

// A study file, and the command of one of its trials. A flag of a parameter that the trial does not
// have is left out.
func ExampleParse() {
	s, err := study.Parse("study.yaml", []byte(`
name: mnist
metric: accuracy
mode: max
command: ./train --lr {lr} --optimizer {optimizer} --momentum {momentum}
space:
  lr: {real: [1e-4, 1e-1], log: true}
  optimizer: [sgd, adam]
  momentum: {real: [0, 0.99], when: {optimizer: sgd}}
samples: 20
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Config.Metric, s.Config.Samples)
	p, err := tune.NewParams("lr", 0.01, "optimizer", "adam")
	fmt.Println(s.Command(tune.Attempt{Params: p}), err)

	_, err = study.Parse("study.yaml", []byte("metric: loss\nmode: least\ncommand: ./train\nspace: {lr: {real: [1, 0]}}\n"))
	fmt.Println(err)
	// Output:
	// accuracy 20
	// [./train --lr 0.01 --optimizer adam] <nil>
	// study.yaml line 4: space.lr: tune: space: parameter 0 "lr": range [1, 0]: want two finite numbers, the first not above the second
	// study.yaml line 2: mode: got "least", want max or min
}
