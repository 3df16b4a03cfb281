// Command adapt measures what adaptive batch sizes bring: the training time to a test accuracy on CIFAR-10, with a fixed batch and with one
// that adapts, seed by seed in turns.
//
//	make build && go run ./bench/adapt --data data/cifar10 --seeds 3 --until 0.65
//
// Both run examples/cifar10 as launch -n 2 -s 2 with --batch 32; the second one with --adapt --max-batch 512. A run is stopped when it has
// come to the accuracy. The time is that of training alone, without evaluations, of which each epoch has some (--eval-steps); between two of them the
// accuracy is taken to rise in a straight line; the last columns have the first evaluation at or above it. --logs DIR keeps the output of each run; a run whose output is already in DIR is not repeated.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"text/tabwriter"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/metrics/plot"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "adapt:", err)
		os.Exit(1)
	}
}

type config struct {
	data, bin, logs, picture string
	seeds, epochs            int
	batch, maxBatch          int
	evalSteps                int
	until                    float64
}

func run(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("adapt", flag.ContinueOnError)
	var c config
	flags.StringVar(&c.data, "data", "", "CIFAR-10: the archive of its binary version, or a folder with it")
	flags.StringVar(&c.bin, "bin", "bin", "folder of launch and cifar10")
	flags.StringVar(&c.logs, "logs", "", "folder for the runs' output; empty: a temporary one")
	flags.StringVar(&c.picture, "picture", "out/adapt.png", "file of the curves")
	flags.IntVar(&c.seeds, "seeds", 3, "seeds 1 to this")
	flags.IntVar(&c.epochs, "epochs", 10, "most epochs of a run")
	flags.IntVar(&c.batch, "batch", 32, "fixed batch of a worker, with which the other one begins")
	flags.IntVar(&c.maxBatch, "max-batch", 512, "largest batch of both workers")
	flags.IntVar(&c.evalSteps, "eval-steps", 195, "steps of the fixed batch, or so much progress, between evaluations; 0: at the end of epochs alone")
	flags.Float64Var(&c.until, "until", 0.65, "test accuracy to come to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case c.seeds < 1:
		return fmt.Errorf("--seeds is %d, want at least 1", c.seeds)
	case c.evalSteps < 0:
		return fmt.Errorf("--eval-steps is %d, want at least 1, or 0 for none", c.evalSteps)
	case !(c.until > 0 && c.until < 1):
		return fmt.Errorf("--until is %v, want a share between 0 and 1", c.until)
	}
	if c.logs == "" {
		dir, err := os.MkdirTemp("", "adapt")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.logs = dir
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "seed\tfixed\tadaptive\tratio\tfirst evaluation above: fixed\tadaptive\tratio\n")
	panel := metrics.Panel{Title: "ResNet18 on CIFAR-10", X: "seconds of training", Y: "test accuracy", Percent: true, FromZero: true}
	for seed := 1; seed <= c.seeds; seed++ {
		fixed, err := c.curve(out, "fixed", seed)
		if err != nil {
			return err
		}
		adaptive, err := c.curve(out, "adapt", seed, "--adapt", "--max-batch", strconv.Itoa(c.maxBatch))
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%d\t%.1f s\t%.1f s\t%.2f\t%.1f s\t%.1f s\t%.2f\n", seed, fixed.time(c.until), adaptive.time(c.until), fixed.time(c.until)/adaptive.time(c.until),
			fixed.evaluated(c.until), adaptive.evaluated(c.until), fixed.evaluated(c.until)/adaptive.evaluated(c.until))
		// Two colours: those of the first two places of the palette.
		for len(panel.Series)%metrics.Colours != 0 {
			panel.Series = append(panel.Series, metrics.Series{})
		}
		panel.Series = append(panel.Series,
			metrics.Series{Name: fmt.Sprintf("fixed, seed %d", seed), X: fixed.seconds, Y: fixed.accuracy},
			metrics.Series{Name: fmt.Sprintf("adaptive, seed %d", seed), X: adaptive.seconds, Y: adaptive.accuracy})
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.picture), 0o755); err != nil {
		return err
	}
	return plot.Curves(c.picture, panel)
}

// A curve is the test accuracy by the seconds of training until then.
type curve struct {
	seconds, accuracy []float64
	trained           float64 // seconds until the end of the newest epoch
}

// time is when the accuracy was reached, on straight lines between evaluations; NaN: never.
func (v curve) time(accuracy float64) float64 {
	for i, a := range v.accuracy {
		if a < accuracy {
			continue
		}
		if i == 0 {
			return v.seconds[0]
		}
		part := (accuracy - v.accuracy[i-1]) / (a - v.accuracy[i-1])
		return v.seconds[i-1] + part*(v.seconds[i]-v.seconds[i-1])
	}
	return math.NaN()
}

// evaluated is when the first evaluation with the accuracy was made; NaN: there was none.
func (v curve) evaluated(accuracy float64) float64 {
	for i, a := range v.accuracy {
		if a >= accuracy {
			return v.seconds[i]
		}
	}
	return math.NaN()
}

// curve is that of a run, which is made unless its output is there.
func (c *config) curve(out io.Writer, name string, seed int, flags ...string) (v curve, err error) {
	path := filepath.Join(c.logs, fmt.Sprintf("%s-%d.log", name, seed))
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := c.train(path, seed, flags); err != nil {
			return v, err
		}
	} else {
		fmt.Fprintf(out, "%s is there: it is not run again\n", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return v, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		v.add(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		return v, fmt.Errorf("%s: %w", path, err)
	}
	if len(v.accuracy) == 0 {
		return v, fmt.Errorf("%s has no test accuracy of worker 0: what is in it?", path)
	}
	return v, nil
}

// train runs one training. It interrupts the run once worker 0 reports the accuracy.
func (c *config) train(path string, seed int, flags []string) (err error) {
	if c.data == "" {
		return errors.New("--data is missing: CIFAR-10's archive or folder")
	}
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	args := []string{"-n", "2", "-s", "2", "--output", "json", "--", filepath.Join(c.bin, "cifar10"), "--data", c.data,
		"--batch", strconv.Itoa(c.batch), "--epochs", strconv.Itoa(c.epochs), "--eval-steps", strconv.Itoa(c.evalSteps), "--seed", strconv.Itoa(seed), "--out", filepath.Join(c.logs, "out")}
	cmd := exec.Command(filepath.Join(c.bin, "launch"), append(args, flags...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt) // launch gets it as well, and ends the run
	defer signal.Stop(interrupted)
	if err := cmd.Start(); err != nil {
		return err
	}
	var v curve
	reached := false
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		fmt.Fprintln(log, lines.Text())
		if v.add(lines.Bytes()); !reached && !math.IsNaN(v.time(c.until)) {
			reached = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil && !reached {
		return errors.Join(fmt.Errorf("%v: %w", cmd.Args, err), os.Remove(path))
	}
	select {
	case <-interrupted:
		return errors.Join(errors.New("interrupted"), os.Remove(path))
	default:
		return nil
	}
}

var (
	trained = regexp.MustCompile(`^Epoch \d+: Train_loss .* in ([0-9.]+) s `)
	within  = regexp.MustCompile(`^Epoch \d+: step \d+: Test_acc ([0-9.]+), Test_loss \S+ after ([0-9.]+) s `)
	tested  = regexp.MustCompile(`^Epoch \d+: Test_acc ([0-9.]+),`)
)

// add takes one line of launch's output.
func (v *curve) add(line []byte) {
	var l struct {
		Role, Stream, Text string
		Rank               int
	}
	if json.Unmarshal(line, &l) != nil || l.Role != "worker" || l.Rank != 0 || l.Stream != "stdout" {
		return
	}
	number := func(text string) float64 {
		x, _ := strconv.ParseFloat(text, 64)
		return x
	}
	if m := trained.FindStringSubmatch(l.Text); m != nil {
		v.trained += number(m[1])
	} else if m := within.FindStringSubmatch(l.Text); m != nil {
		v.seconds, v.accuracy = append(v.seconds, v.trained+number(m[2])), append(v.accuracy, number(m[1]))
	} else if m := tested.FindStringSubmatch(l.Text); m != nil {
		v.seconds, v.accuracy = append(v.seconds, v.trained), append(v.accuracy, number(m[1]))
	}
}
