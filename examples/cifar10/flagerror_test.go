package main

import (
	"errors"
	"testing"

	"github.com/paragon-train/paragon/examples/internal/program"
)

func TestAWrongFlagIsExplained(t *testing.T) {
	for arg, want := range map[string]string{
		"--epochz=2":           "there is no flag -epochz; did you mean --epochs?; see --help",
		"--nothing-like-it":    "there is no flag -nothing-like-it; see --help",
		"--epochs=many":        `invalid value "many" for flag -epochs: want a whole number; see --help`,
		"--seed=-1":            `invalid value "-1" for flag -seed: want a whole number, 0 or more; see --help`,
		"--lr=fast":            `invalid value "fast" for flag -lr: want a number; see --help`,
		"--augment=perhaps":    `invalid boolean value "perhaps" for -augment: want true or false; see --help`,
		"--class-weights=1,a":  `invalid value "1,a" for flag -class-weights: want numbers, separated by commas; see --help`,
		"--epochs":             "flag needs an argument: -epochs; see --help",
		"--checkpoint-every=5": `invalid value "5" for flag -checkpoint-every: want a time with its unit, such as 30s or 5m; see --help`,
	} {
		if err := newApp().Run([]string{"cifar10", arg}); err == nil || err.Error() != want {
			t.Errorf("%s: got error %v, want %s", arg, err, want)
		}
	}
	refused := errors.New("the program's own")
	if err := program.ExplainFlag(nil, refused); err != refused { //nolint:errorlint // not even wrapped
		t.Errorf("got error %v, want it as it was", err)
	}
}
