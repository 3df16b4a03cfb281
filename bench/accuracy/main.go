// Command accuracy measures what adaptive batch sizes cost in accuracy: the accuracy on CIFAR-10's
// 10,000 test images after as much progress with a batch that adapts as with a fixed one, for four
// networks, SGD and Adam, one and two workers, seed by seed.
//
//	make build && go build -trimpath -o bin/ ./bench/accuracy && bin/accuracy --data data/cifar10 --results out/accuracy.jsonl
//
// A pair of runs has the same initial values and the same order of the data, 32 examples a step or
// 32 to 512. Large batches hardly cost time, in a model that takes the place of measured times: so
// the batch grows as far as the noise of the gradient bears out, whatever the machine does besides,
// and a run repeats bit for bit. Results are appended to the file, and runs that are in it are not
// repeated: after --for the command ends, and the next one goes on.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

// config is the command line. With worker the program is one worker of a run, which launch has
// started.
type config struct {
	data, launch, results, only string
	first, seeds                int
	limit                       time.Duration

	// worker names the run of which this process is a worker, and out is where it writes its
	// result.
	worker string
	out    string
}

// run measures what the file of results does not have yet, and writes the table: a run that was cut
// off goes on with the same command.
func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("accuracy", flag.ContinueOnError)
	var c config
	flags.StringVar(&c.data, "data", "", "CIFAR-10: the archive of its binary version, or a folder with it (unpacked is faster: every run reads it)")
	flags.StringVar(&c.launch, "launch", "bin/launch", "the launch program, for two workers")
	flags.StringVar(&c.results, "results", "out/accuracy.jsonl", "file of the results, one a line, to which new ones are appended")
	flags.StringVar(&c.only, "only", "", "cells whose names contain this, such as \"lenet sgd\"; empty: all")
	flags.IntVar(&c.first, "first", 1, "the first seed")
	flags.IntVar(&c.seeds, "seeds", 10, "how many seeds, from --first on")
	flags.DurationVar(&c.limit, "for", 0, "begin no run after this time (0: no limit)")
	flags.StringVar(&c.worker, "worker", "", "be a worker of this run (JSON)")
	flags.StringVar(&c.out, "out", "", "with --worker: file of the result")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.worker != "" {
		var r runConfig
		if err := json.Unmarshal([]byte(c.worker), &r); err != nil {
			return fmt.Errorf("--worker: %w", err)
		}
		return train(ctx, r, c.data, c.out)
	}
	if c.seeds < 2 {
		return fmt.Errorf("--seeds is %d, want at least 2: seeds have a spread", c.seeds)
	}
	if c.first < 0 {
		return fmt.Errorf("--first is %d, want at least 0", c.first)
	}
	have, err := read(c.results)
	if err != nil {
		return err
	}
	done, err := c.measureMissing(ctx, have)
	if err != nil {
		return err
	}
	if err := write(out, have, c.first, c.seeds); err != nil {
		return err
	}
	if !done {
		fmt.Fprintln(out, "\nNot all runs are done: the same command goes on.")
	}
	return nil
}

// measureMissing adds the runs that have does not have. It begins none after the limit, and says
// whether all are done. Seeds are the outermost loop: where the runs end early, all cells have about
// as many of them.
func (c *config) measureMissing(ctx context.Context, have map[runConfig]result) (done bool, err error) {
	begin, done := time.Now(), true
	for _, r := range c.runs() {
		if _, ok := have[r]; ok {
			continue
		}
		if c.limit > 0 && time.Since(begin) > c.limit {
			done = false
			continue
		}
		x, err := c.measure(ctx, r)
		if err != nil {
			return false, err
		}
		have[r] = x
	}
	return done, nil
}

// runs are those that are asked for, seed by seed.
func (c *config) runs() (list []runConfig) {
	for seed := c.first; seed < c.first+c.seeds; seed++ {
		for _, adapt := range []bool{false, true} {
			for _, cell := range cells() {
				if strings.Contains(cell.String(), c.only) {
					list = append(list, runConfig{cell, uint64(seed), adapt})
				}
			}
		}
	}
	return list
}

// read has the results that a file holds; a file that is not there holds none.
func read(path string) (map[runConfig]result, error) {
	have := map[runConfig]result{}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return have, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, n, err)
		}
		have[r.runConfig] = r
	}
	return have, lines.Err()
}

// measure does one run and appends its result to the file.
func (c *config) measure(ctx context.Context, r runConfig) (x result, err error) {
	self, err := os.Executable()
	if err != nil {
		return x, err
	}
	dir, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		return x, err
	}
	defer os.RemoveAll(dir)
	text, err := json.Marshal(r)
	if err != nil {
		return x, err
	}
	path := filepath.Join(dir, "result.json")
	command := []string{self, "--data", c.data, "--worker", string(text), "--out", path}
	if r.Workers > 1 {
		command = append([]string{c.launch, "-n", strconv.Itoa(r.Workers), "-s", "1", "--"}, command...)
	}
	if said, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
		return x, fmt.Errorf("%v: %w: %s", command, err, said)
	}
	if text, err = os.ReadFile(path); err != nil {
		return x, err
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return x, err
	}
	if err := os.MkdirAll(filepath.Dir(c.results), 0o777); err != nil {
		return x, err
	}
	f, err := os.OpenFile(c.results, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return x, err
	}
	_, err = f.Write(append(text, '\n'))
	return x, errors.Join(err, f.Close())
}
