package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// programs are those that gpucheck runs, and a reason if one is missing.
func (c *checker) programs() (launch, cifar10, missing string) {
	launch, cifar10 = filepath.Join(c.bin, "launch"), filepath.Join(c.bin, "cifar10")
	for _, path := range []string{launch, cifar10} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			missing = path + " is not there: make build"
		} else if err != nil {
			missing = err.Error()
		}
	}
	return launch, cifar10, missing
}

var (
	epochLine = regexp.MustCompile(`Epoch (\d+): Train_loss ([0-9.]+), (\d+) examples in [0-9.]+ s \((\d+) examples/s\)`)
	testLine  = regexp.MustCompile(`Epoch (\d+): Test_acc ([0-9.]+)`)
)

// epochRates are the images a second of each epoch, over all workers.
func epochRates(text string) (rates []float64, loss float64) {
	for _, m := range epochLine.FindAllStringSubmatch(text, -1) {
		epoch, err1 := strconv.Atoi(m[1])
		rate, err2 := strconv.ParseFloat(m[4], 64)
		if err1 != nil || err2 != nil || epoch > 1000 {
			continue
		}
		for len(rates) <= epoch {
			rates = append(rates, 0)
		}
		rates[epoch] += rate
		loss, _ = strconv.ParseFloat(m[2], 64) // it matched
	}
	return rates, loss
}

// runCommand runs a program in a folder of its own and returns what it wrote.
func (c *checker) runCommand(command ...string) (string, time.Duration, error) {
	dir, err := os.MkdirTemp("", "gpucheck-")
	if err != nil {
		return "", 0, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(c.ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%s\n", strings.Join(command, " "), out)
		err = fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, lastLine(string(out)))
	}
	return string(out), time.Since(begun), err
}

const endToEndName = "1 worker, 1 server"

func checkEndToEnd(c *checker) error {
	launch, cifar10, missing := c.programs()
	if missing != "" {
		c.skipped("launch", missing)
		return nil
	}
	device := fmt.Sprintf("cuda:%d", c.device)
	common := []string{"--", cifar10, "--devices", device, "--stem", "cifar", "--batch", "512", "--optimizer", "nag", "--lr", "0.02", "--momentum", "0.9",
		"--train-examples", "25600", "--test-examples", "512", "--epochs", "4"}
	if c.small {
		common = []string{"--", cifar10, "--devices", device, "--batch", "2", "--train-examples", "4", "--test-examples", "2", "--epochs", "2"}
	}
	half := []string{"--compression", "bf16", "--compression-pull", "bf16"}
	for _, j := range []struct {
		name string
		n    string
		more []string
	}{{endToEndName, "1", nil}, {endToEndName + ", bf16 on the wire", "1", half}, {"2 workers, 2 servers, one GPU", "2", nil}} {
		if c.late(j.name) {
			continue
		}
		command := append([]string{launch, "-n", j.n, "-s", j.n}, append(common[:len(common):len(common)], j.more...)...)
		text, took, err := c.runCommand(command...)
		if err != nil {
			c.failed(j.name, err)
			continue
		}
		rates, loss := epochRates(text)
		if len(rates) < 2 {
			c.failed(j.name, fmt.Errorf("there are no speeds of two epochs in %q", firstLine(text)))
			continue
		}
		best := 0.0
		for _, r := range rates[1:] { // the first has preparations in it
			best = max(best, r)
		}
		c.measured(j.name, best, "images/s", "epochs %.0f; last loss %.3f; %.1f s in all", rates, loss, took.Seconds())
	}
	return nil
}

// checkAccuracy trains on real images for a while, with a recipe that reaches 94 %.
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
	text, took, err := c.runCommand(launch, "-n", "1", "-s", "1", "--", cifar10, "--data", data, "--devices", fmt.Sprintf("cuda:%d", c.device), "--stem", "cifar", "--batch", "512",
		"--optimizer", "nag", "--lr", "0.2", "--momentum", "0.9", "--weight-decay", "5e-4", "--schedule", "cosine", "--warmup-epochs", "3", "--augment", "--epochs", strconv.Itoa(c.epochs))
	all := testLine.FindAllStringSubmatch(text, -1)
	if err != nil && len(all) == 0 {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("there is no accuracy in %q", firstLine(text))
	}
	last := all[len(all)-1]
	value, _ := strconv.ParseFloat(last[2], 64) // it matched
	rates, _ := epochRates(text)
	r := row{Name: name, Status: ok, Value: value, Unit: "of all", Bound: bound, Detail: fmt.Sprintf("after epoch %s of %d, %.0f s in all (aim: under 60 s); images/s %.0f", last[1], c.epochs, took.Seconds(), rates)}
	if value < bound {
		r.Status = miss
	}
	if err != nil {
		r.Detail += "; cut off: " + err.Error()
	}
	c.row(r)
	return nil
}
