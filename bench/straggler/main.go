// Command straggler measures what one slow worker costs each way of training together: synchronous, asynchronous within a bound
// on staleness, asynchronous without, and in rounds of local steps.
//
//	go run ./bench/straggler --data data/mnist
//	go run ./bench/straggler --data data/mnist --wander 50ms    every worker is slow at times, as on hosts that others use too
//
// Each row is a job of processes on this machine (a scheduler, a server, workers) that trains a perceptron with one hidden layer
// for a spell. A worker's step ends with a pause, which stands for the compute of a bigger model and is several times as long on
// the last worker, the straggler: so the cores are idle enough that workers do not slow each other down. The rows take turns.
//
// The optimizer is SGD on sums of gradients: the same examples move the weights as far in every row, whether in one large step
// or in several small ones. With local steps a worker's step is by the mean over its own examples, and the workers' values are
// averaged.
//
// The table has, over all repetitions, the median of each: examples trained in a second by all workers; that over the
// synchronous row's; the share of steps that the straggler took; updates of others that a gradient was computed
// without, on average and at most; the most steps that a worker was ahead of the slowest; the accuracy on the test set at the
// end of the spell; and the accuracy, and the time taken, when as many examples had been trained as in the slowest row's spell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/metrics"
)

// settings are what the command line asks for, and what each process of a job is given.
type settings struct {
	Data    string
	Batch   int
	Rate    float64 // of the mean gradient over the examples of one step of all workers
	Pause   time.Duration
	Slow    float64
	Wander  time.Duration // the straggler is another worker each time; 0: always the last
	Spell   time.Duration
	Workers int
	Mode    mode
}

// A mode is a way of training together.
type mode struct {
	Name      string
	Store     string
	Staleness int // below 0: no bound
	Local     int // local steps in a round; 0: none
}

var modes = []mode{
	{"synchronous", "dist_sync", -1, 0},
	{"staleness 0", "dist_async", 0, 0},
	{"staleness 1", "dist_async", 1, 0},
	{"staleness 4", "dist_async", 4, 0},
	{"unbounded", "dist_async", -1, 0},
	{"8 local steps", "dist_sync", -1, 8},
	{"32 local steps", "dist_sync", -1, 32},
}

func main() {
	if os.Getenv(roleEnv) != "" {
		if err := process(); err != nil {
			fmt.Fprintln(os.Stderr, "straggler:", err)
			os.Exit(1)
		}
		return
	}
	var s settings
	flag.StringVar(&s.Data, "data", "", "folder of MNIST's idx files; empty: synthetic images")
	flag.IntVar(&s.Workers, "workers", 4, "workers, the last of which is the straggler")
	flag.IntVar(&s.Batch, "batch", 32, "examples of a worker's step")
	flag.Float64Var(&s.Rate, "lr", 0.2, "learning rate of the mean gradient over one step of all workers")
	flag.DurationVar(&s.Pause, "pause", 5*time.Millisecond, "pause that ends a step")
	flag.Float64Var(&s.Slow, "slow", 5, "how many times as long the straggler's is")
	flag.DurationVar(&s.Wander, "wander", 0, "after how long another worker becomes the straggler; 0: it stays the last one")
	flag.DurationVar(&s.Spell, "spell", 6*time.Second, "how long each job trains")
	count := flag.Int("count", 3, "repetitions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := errors.New("got an argument behind the flags, want flags only; see --help")
	if flag.NArg() == 0 {
		err = measure(ctx, s, *count, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "straggler:", err)
		os.Exit(1)
	}
}

// measure runs all modes in turns and writes the table.
func measure(ctx context.Context, s settings, count int, out io.Writer) error {
	if s.Workers < 2 || s.Batch < 1 || count < 1 || s.Pause <= 0 || s.Wander < 0 || s.Spell < 10*s.Pause || !(s.Slow >= 1) || !(s.Rate > 0) {
		return fmt.Errorf("got --workers %d --batch %d --lr %v --pause %v --slow %v --spell %v --count %d, want at least 2 workers, 1 example, a rate and a pause above 0, slow of 1, a spell of 10 pauses and 1 repetition",
			s.Workers, s.Batch, s.Rate, s.Pause, s.Slow, s.Spell, count)
	}
	fmt.Fprintf(out, "command: straggler %s\ncommit: %s\nmachine: %s\n", strings.Join(os.Args[1:], " "), machine.Commit(), machine.Here())
	rows := make([][]row, len(modes))
	for range count {
		jobs := make([]result, len(modes))
		for i, m := range modes {
			s.Mode = m
			var err error
			if jobs[i], err = run(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		for i, r := range rowsOf(jobs, s) {
			rows[i] = append(rows[i], r)
		}
	}
	table := metrics.Table{Columns: []string{"mode", "examples/s", "÷ synchronous", "straggler's steps", "missed mean", "missed max", "lead max", "accuracy", "accuracy, equal examples", "seconds to it"}}
	for i, m := range modes {
		median := func(of func(row) float64) float64 {
			values := make([]float64, count)
			for k, r := range rows[i] {
				values[k] = of(r)
			}
			slices.Sort(values)
			return values[count/2]
		}
		table.Row(m.Name, int(median(func(r row) float64 { return r.speed })+0.5), metrics.Fixed(median(func(r row) float64 { return r.gain })),
			metrics.Percent(median(func(r row) float64 { return r.straggler })), metrics.Fixed(median(func(r row) float64 { return r.missedMean })),
			int(median(func(r row) float64 { return r.missedMax })), int(median(func(r row) float64 { return r.lead })),
			metrics.Percent(median(func(r row) float64 { return r.accuracy })), metrics.Percent(median(func(r row) float64 { return r.equal })),
			metrics.Fixed(median(func(r row) float64 { return r.seconds })))
	}
	_, err := table.WriteTo(out)
	return err
}

// A row is what one repetition brought for one mode.
type row struct {
	speed, gain, straggler      float64
	missedMean, missedMax, lead float64
	accuracy, equal, seconds    float64
}

// rowsOf compares the jobs of one repetition, the first of which is the synchronous one.
func rowsOf(jobs []result, s settings) []row {
	least := jobs[0].last().Examples
	for _, j := range jobs {
		least = min(least, j.last().Examples)
	}
	rows := make([]row, len(jobs))
	for i, j := range jobs {
		r := &rows[i]
		r.speed = j.last().Examples / j.last().Seconds
		r.gain = r.speed / (jobs[0].last().Examples / jobs[0].last().Seconds)
		total := 0
		for _, n := range j.Steps {
			total += n
		}
		r.straggler = float64(j.Steps[s.Workers-1]) / float64(total)
		if j.Missed.Count > 0 {
			r.missedMean = j.Missed.Mean()
		}
		r.missedMax, r.lead = float64(j.Missed.Max), float64(j.Lead.Max)
		r.accuracy = j.last().Accuracy
		r.equal, r.seconds = j.at(least)
	}
	return rows
}
