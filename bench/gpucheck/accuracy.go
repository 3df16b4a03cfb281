package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// checkAccuracy trains on real images, with a recipe that reaches 94 %.
func checkAccuracy(c *checker) error {
	const name, bound = "CIFAR-10 test accuracy", 0.94
	if c.data == "" {
		c.skipped(name, "-data is not given")
		return nil
	}
	launch, cifar10, missing := c.programs()
	if missing != "" {
		c.skipped(name, missing)
		return nil
	}
	data, err := filepath.Abs(c.data)
	if err != nil {
		return err
	}
	recipe := []string{"--stem", "cifar", "--batch", "512", "--optimizer", "nag", "--lr", "0.4", "--momentum", "0.9", "--weight-decay", "5e-4", "--decay-weights-only",
		"--schedule", "onecycle", "--label-smoothing", "0.1", "--augment", "--epochs", strconv.Itoa(c.epochs)}
	if c.small {
		recipe = []string{"--width", "8", "--batch", "4", "--augment", "--train-examples", "8", "--test-examples", "8", "--epochs", strconv.Itoa(c.epochs)}
	}
	text, took, err := c.runCommand(append([]string{launch, "-n", "1", "-s", "1", "--", cifar10, "--data", data, "--devices", fmt.Sprintf("cuda:%d", c.device)}, recipe...)...)
	all := testLine.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		if err == nil {
			err = fmt.Errorf("found no accuracy in %q", firstLine(text))
		}
		return err
	}
	last := all[len(all)-1]

	// The pattern takes numbers alone.
	value, _ := strconv.ParseFloat(last[2], 64)
	rates, _ := epochRates(text)
	r := row{Name: name, Status: ok, Value: value, Unit: "of all", Bound: bound,
		Detail: fmt.Sprintf("after epoch %s of %d, %s in all (aim: under 60 s); images/s %.0f; %s", last[1], c.epochs, took.Round(100*time.Millisecond), rates, shares(text))}
	switch {
	case c.small:
		r.Status = info
	case value < bound:
		r.Status = miss
	}
	if err != nil {
		r.Detail += "; " + err.Error()
		if c.ctx.Err() == nil {
			r.Status = fail
		}
	}
	c.row(r)
	return nil
}
