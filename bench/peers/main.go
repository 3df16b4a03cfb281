// Command peers measures bench/cpu and PyTorch on the same work, in turns. bench/peers/torch.sh builds what it needs and runs it;
// "make bench-peers" does all.
//
// For each row (model, batch, threads, dtype) both programs start, warm up and then run short spells in turn, A B A B, while
// the other one sleeps; so what else the machine does hits both alike. New processes take over several times, since PyTorch's
// speed differs between processes. A row's ratio is that of the medians of all spells, in images a second. Beside it stand the
// smallest, middle and largest ratio of a spell and the one after it, and the ratio in images a second of CPU time. Only
// quiet pairs of spells count, during which other processes took at most a twentieth of the cores; up to four times as many
// are made to get them. Where there are hardly any, all count, and "others" tells how much was taken at most.
//
// Memory is what the process grew by from before it made the model to its peak, of a process apart with its allocator as it
// comes and one layout. Scaling rows compare two processes of one thread with one, for each program with itself.
//
// Results are in the format of Go's benchmarks; --table adds a table for people.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newApp().RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		stop()
		os.Exit(1)
	}
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "peers",
		Usage:           "measure training and PyTorch's in turns",
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "ours", Value: "bin/bench/cpu", Usage: "the program of bench/cpu"},
			&cli.StringFlag{Name: "launch", Value: "bin/launch"},
			&cli.StringFlag{Name: "python", Value: "python3", Usage: "a Python that has torch"},
			&cli.StringFlag{Name: "script", Value: "bench/peers/pytorch.py"},
			&cli.BoolFlag{Name: "blas-openmp", Usage: "PyTorch's BLAS computes on OpenMP's threads"},
			&cli.StringFlag{Name: "rows", Usage: "only rows that this regular expression matches"},
			&cli.StringFlag{Name: "dtypes", Value: "float32", Usage: "regular expression of the number types measured: float32|bf16"},
			&cli.IntFlag{Name: "processes", Value: 3, Usage: "pairs of processes of a row"},
			&cli.IntFlag{Name: "turns", Value: 6, Usage: "quiet spells of each process"},
			&cli.Float64Flag{Name: "seconds", Value: 0.5, Usage: "of a spell, which is at least one step"},
			&cli.DurationFlag{Name: "start-limit", Value: 3 * time.Minute, Usage: "for one process to get ready or to answer"},
			&cli.PathFlag{Name: "table", Usage: "file for a table in Markdown"},
			&cli.StringFlag{Name: "commit", Usage: "named in the table"},
			&cli.StringFlag{Name: "note", Usage: "added to the table: versions"},
		},
		Action: run,
	}
}

// A bench is one run of this program.
type bench struct {
	ours, launch, python, script string
	oneBlasPool                  bool // BLAS has no threads of its own
	processes, turns             int
	seconds                      float64
	limit                        time.Duration
	out                          io.Writer
	results                      []result
}

func run(c *cli.Context) error {
	only, err := regexp.Compile(c.String("rows"))
	if err != nil {
		return fmt.Errorf("--rows: %w", err)
	}
	dtypes, err := regexp.Compile("^(" + c.String("dtypes") + ")$")
	if err != nil {
		return fmt.Errorf("--dtypes: %w", err)
	}
	b := &bench{
		ours: c.String("ours"), launch: c.String("launch"), python: c.String("python"), script: c.String("script"), oneBlasPool: c.Bool("blas-openmp"),
		processes: c.Int("processes"), turns: c.Int("turns"), seconds: c.Float64("seconds"), limit: c.Duration("start-limit"), out: c.App.Writer,
	}
	if b.processes < 1 || b.turns < 1 || !(b.seconds >= 0) {
		return fmt.Errorf("--processes is %d, --turns %d and --seconds %v, want at least 1, 1 and 0", b.processes, b.turns, b.seconds)
	}
	for _, program := range []*string{&b.ours, &b.launch} {
		if *program, err = filepath.Abs(*program); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.out, "goos: %s\ngoarch: %s\npkg: github.com/paragon-train/paragon/bench/peers\n", runtime.GOOS, runtime.GOARCH)
	start := time.Now()
	for _, r := range rows() {
		if !dtypes.MatchString(r.dtype) || !only.MatchString(r.String()) {
			continue
		}
		res, err := b.measure(c.Context, r)
		if err != nil {
			return fmt.Errorf("%v: %w", r, err)
		}
		b.results = append(b.results, res)
		if c.Path("table") != "" { // after each row, since a run is long
			if err := writeTable(c.Path("table"), c.String("commit"), c.String("note"), time.Since(start), b); err != nil {
				return err
			}
		}
	}
	return nil
}
