// Command python measures the Python client beside what it is compared with, in turns.
//
// Rows "round" are a round of ResNet18's 44.7 MB between two workers and two servers: bench/kv's
// own workers in Go, and Python's, whose ordinary tensors or arrays are copied as a training step
// copies them. Rows "keys" are one call with 62 small keys; what counts there is the time that
// Python adds. Rows "step" are whole training steps of two processes of one thread: paragon.torch,
// with two servers, and DistributedDataParallel over gloo (bench/peers/pytorch.py).
//
// A turn is both sides of a row, one after the other, and each turn begins with the other side. A
// turn in which other processes took more than a twentieth of the cores is left out, and another
// one made, up to four times as many as asked for; where hardly any is quiet all count, and the row
// says how much others took. A ratio is the median over the turns, with its 95 % interval by
// resampling: above 1 Python is faster.
//
// What a killed worker costs takes minutes: bench/python/kills.py is a program of its own, beside
// torchft.
//
// Values are checked: those of a round must be the ones that Go's workers get, bit for bit.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/bench/internal/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newApp().RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "python:", err)
		stop()
		os.Exit(1)
	}
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "python",
		Usage:           "measure the Python client in turns with Go's workers and with PyTorch's DDP",
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "kv", Value: "bin/bench/kv", Usage: "the program of bench/kv"},
			&cli.StringFlag{Name: "launch", Value: "bin/launch"},
			&cli.StringFlag{Name: "python", Value: "python3", Usage: "a Python that has numpy and torch"},
			&cli.StringFlag{Name: "package", Value: "python", Usage: "the folder of package paragon; empty: the one that is installed"},
			&cli.StringFlag{Name: "scripts", Value: "bench", Usage: "the folder of python/peer.py and peers/pytorch.py"},
			&cli.StringFlag{Name: "rows", Value: ".", Usage: "only rows that this regular expression matches"},
			&cli.IntFlag{Name: "turns", Value: 8, Usage: "quiet turns of each row, at most"},
			&cli.Float64Flag{Name: "scale", Value: 1, Usage: "multiplies the samples of a turn"},
			&cli.DurationFlag{Name: "budget", Value: 9 * time.Minute, Usage: "of the whole run"},
		},
		Action: func(c *cli.Context) error { return run(c) },
	}
}

// run measures row after row. Each has its share of the budget that is left.
func run(c *cli.Context) error {
	only, err := regexp.Compile(c.String("rows"))
	if err != nil {
		return fmt.Errorf("--rows: %w", err)
	}
	b := &bench{turns: c.Int("turns"), scale: c.Float64("scale"), python: c.String("python"), out: c.App.Writer, busy: busy}
	if b.turns < 1 || !(b.scale > 0) {
		return fmt.Errorf("--turns is %d and --scale %v, want at least 1 and above 0", b.turns, b.scale)
	}
	for _, path := range []struct {
		to   *string
		flag string
	}{{&b.kv, "kv"}, {&b.launch, "launch"}, {&b.pkg, "package"}, {&b.scripts, "scripts"}} {
		if *path.to = c.String(path.flag); *path.to == "" {
			continue
		}
		if *path.to, err = filepath.Abs(*path.to); err != nil {
			return err
		}
	}
	var chosen []row
	for _, r := range b.rows() {
		if only.MatchString(r.name) {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("--rows %q matches no row", c.String("rows"))
	}
	if err := adoptOrphans(); err != nil {
		return err
	}
	machine.Here().WriteHead(b.out, "bench/python")
	begun := time.Now()
	for i, r := range chosen {
		share := (c.Duration("budget") - time.Since(begun)) / time.Duration(len(chosen)-i)
		if err := b.measure(c.Context, r, share); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// A bench is one run of this program.
type bench struct {
	kv, launch, python, pkg, scripts string

	turns int
	scale float64
	out   io.Writer
	// busy is the time in seconds that all cores together have worked.
	busy func() float64
}

// env is the environment of a program that imports package paragon.
func (b *bench) env() []string {
	env := append(os.Environ(), "PARAGON_LAUNCH="+b.launch)
	if b.pkg != "" {
		env = append(env, "PYTHONPATH="+b.pkg)
	}
	return env
}
