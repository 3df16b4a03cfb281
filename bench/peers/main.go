// Command peers measures bench/cpu and PyTorch on the same work, in turns. bench/peers/torch.sh
// builds what it needs and runs it; "make bench-peers" does all.
//
// For each row (model, batch, threads, dtype) both programs start, warm up and then run short
// spells in turn, A B A B, while the other one sleeps; so what else the machine does hits both
// alike. New processes take over several times, since PyTorch's speed differs between processes. A
// row's ratio divides the medians of all spells, in images a second. The next columns have the
// smallest, middle and largest ratio of a spell and the one after it, and the ratio in images a
// second of CPU time. Only quiet pairs of spells count, during which other processes took at most a
// twentieth of the cores; up to four times as many are made to get them. Where there are hardly any
// those count during which they took at most a tenth, and where there are hardly any of those all
// count. "others" tells how much was taken at most: above a tenth the row says so and has no ratio.
//
// With --compile a third process takes its turns, PyTorch under torch.compile. The better of the
// two is the peer.
//
// Rows with peer=llm.c are against the CPU program of github.com/karpathy/llm.c, and those with
// peer=read against a read of a model's parameters by all threads, the least that a token takes.
// "Images" are examples of any kind: sequences, or tokens. Attention has both passes and no update.
//
// Memory is what the process grew by from before it made the model to its peak, of a process apart
// with its allocator as it comes and one layout. Scaling rows compare two processes of one thread
// with one, for each program with itself.
//
// A run ends within --budget: each row has its share of what is left. Where that is up, the spells
// that were made count; a program that is not ready or does not answer by then, or a peer that
// fails, is a row that says so, and the rest goes on.
//
// Results are in the format of Go's benchmarks; --table adds a table for people, and --save a file
// that is named for the machine, which bench/machines puts beside those of others.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/bench/internal/processes"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newApp(busy).RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		stop()
		os.Exit(1)
	}
}

// newApp returns the program; busy is the time in seconds that all cores together have worked.
func newApp(busy func() float64) *cli.App {
	return &cli.App{
		Name:            "peers",
		Usage:           "measure training and PyTorch's in turns",
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "ours", Value: "bin/bench/cpu", Usage: "the program of bench/cpu"},
			&cli.StringFlag{Name: "launch", Value: "bin/launch"},
			&cli.StringFlag{Name: "python", Value: "python3", Usage: "a Python that has torch"},
			&cli.StringFlag{Name: "script", Value: "bench/peers/pytorch.py"},
			&cli.StringFlag{Name: "llmc", Value: "bin/bench/llmc", Usage: "bench/peers/llmc/serve.c, built with a checkout of llm.c"},
			&cli.BoolFlag{Name: "compile", Usage: "measure torch.compile beside eager PyTorch; the better one is the peer"},
			&cli.BoolFlag{Name: "memory", Value: true, Usage: "measure memory, too"},
			&cli.BoolFlag{Name: "blas-openmp", Usage: "PyTorch's BLAS computes on OpenMP's threads"},
			&cli.StringFlag{Name: "rows", Value: `^model=(resnet.*|mobilenetv2|mlp|lenet)/.*(threads|processes)=2`, Usage: "only rows that this regular expression matches (.: all)"},
			&cli.StringFlag{Name: "dtypes", Value: "float32|bf16", Usage: "regular expression of the number types measured"},
			&cli.IntFlag{Name: "processes", Value: 2, Usage: "pairs of processes of a row, at most"},
			&cli.IntFlag{Name: "turns", Value: 4, Usage: "quiet spells of each process, at most"},
			&cli.Float64Flag{Name: "seconds", Value: 0.5, Usage: "of a spell, which is at least one step"},
			&cli.DurationFlag{Name: "budget", Value: 9 * time.Minute, Usage: "of the whole run"},
			&cli.DurationFlag{Name: "start-limit", Value: time.Minute, Usage: "for one process to get ready or to answer"},
			&cli.PathFlag{Name: "save", Usage: "folder for the results, in a file named for the machine"},
			&cli.StringFlag{Name: "save-as", Value: "peers", Usage: "the start of that file's name"},
			&cli.PathFlag{Name: "table", Usage: "file for a table in Markdown"},
			&cli.StringFlag{Name: "note", Usage: "added to the table: versions"},
		},
		Action: func(c *cli.Context) error { return run(c, busy) },
	}
}

// A bench is one run of this program.
type bench struct {
	ours, launch, python, script, llmc string

	// oneBlasPool says that BLAS has no threads of its own.
	oneBlasPool bool

	compile, memory  bool
	processes, turns int
	seconds          float64
	limit            time.Duration
	budget           time.Duration
	busy             func() float64
	out              io.Writer
	results          []result
}

// run measures row after row. Each row has its share of the budget that is left, so that one which
// is cut short leaves time to the later ones.
func run(c *cli.Context, busy func() float64) error {
	only, err := regexp.Compile(c.String("rows"))
	if err != nil {
		return fmt.Errorf("--rows: %w", err)
	}
	dtypes, err := regexp.Compile("^(" + c.String("dtypes") + ")$")
	if err != nil {
		return fmt.Errorf("--dtypes: %w", err)
	}
	here := machine.Here()
	var saved bytes.Buffer
	b := &bench{
		busy: busy, ours: c.String("ours"), launch: c.String("launch"), python: c.String("python"), script: c.String("script"), llmc: c.String("llmc"), oneBlasPool: c.Bool("blas-openmp"), compile: c.Bool("compile"), memory: c.Bool("memory"),
		processes: c.Int("processes"), turns: c.Int("turns"), seconds: c.Float64("seconds"), limit: c.Duration("start-limit"), budget: c.Duration("budget"),
		out: io.MultiWriter(c.App.Writer, &saved),
	}
	if err := b.validate(); err != nil {
		return err
	}
	for _, program := range []*string{&b.ours, &b.launch} {
		if *program, err = filepath.Abs(*program); err != nil {
			return err
		}
	}
	chosen := slices.DeleteFunc(rows(), func(r row) bool { return !dtypes.MatchString(r.dtype) || !only.MatchString(r.String()) })
	if len(chosen) == 0 {
		return fmt.Errorf("--rows %q and --dtypes %q match no row", c.String("rows"), c.String("dtypes"))
	}
	here.WriteHead(b.out, "bench/peers")
	if note := c.String("note"); note != "" {
		fmt.Fprintf(b.out, "note: %s\n", note)
	}
	start := time.Now()
	var failed error
	for i, r := range chosen {
		res, err := b.row(c.Context, r, (b.budget-time.Since(start))/time.Duration(len(chosen)-i))
		if c.Context.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			failed = errors.Join(failed, b.noteFailure(c.App.ErrWriter, &res, err))
		}
		b.results = append(b.results, res)

		// Results are written after each row, since a run is long.
		if c.Path("table") != "" {
			if err := writeTable(c.Path("table"), here, c.String("note"), time.Since(start), b); err != nil {
				return err
			}
		}
		if c.Path("save") != "" {
			if err := here.Save(c.Path("save"), c.String("save-as"), saved.Bytes()); err != nil {
				return fmt.Errorf("--save: %w", err)
			}
		}
	}
	return failed
}

func (b *bench) validate() error {
	if b.processes < 1 || b.turns < 1 || !(b.seconds >= 0) {
		return fmt.Errorf("--processes is %d, --turns %d and --seconds %v, want at least 1, 1 and 0", b.processes, b.turns, b.seconds)
	}
	if b.budget <= 0 || b.limit <= 0 {
		return fmt.Errorf("--budget is %v and --start-limit %v, want both above 0", b.budget, b.limit)
	}
	return nil
}

// noteFailure says in the row why it has no ratio. It returns the error if that is one of this
// program: a late row and a peer that fails are none.
func (b *bench) noteFailure(errout io.Writer, res *result, err error) (ours error) {
	res.late = processes.Reason(err)
	var theirs peerError
	switch {
	case errors.Is(err, errLate):
	case errors.As(err, &theirs):
		res.late = "failed: " + res.late
		fmt.Fprintf(errout, "peers: %v: %v\n", res.row, err)
	default:
		res.late = "failed: " + res.late
		ours = fmt.Errorf("%v: %w", res.row, err)
	}
	fmt.Fprintf(b.out, "# BenchmarkRatio/%v: %s\n", res.row, res.late)
	return ours
}

// row measures a row in so much time.
func (b *bench) row(ctx context.Context, r row, share time.Duration) (result, error) {
	if share <= 0 {
		return result{row: r}, fmt.Errorf("not measured: --budget %v is spent: %w", b.budget, errLate)
	}
	over := fmt.Errorf("the row's %v of --budget %v were over (fewer --rows have more time each): %w", share.Round(time.Second/10), b.budget, errLate)
	ctx, cancel := context.WithTimeoutCause(ctx, share, over)
	defer cancel()

	// The rest of the time is for memory.
	return b.measure(ctx, r, time.Now().Add(share*2/3))
}
