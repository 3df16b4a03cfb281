package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/compute/pool"
	"github.com/paragon-train/paragon/nn"
	"github.com/urfave/cli/v2"
)

func scalingCommand() *cli.Command {
	return &cli.Command{
		Name:  "scaling",
		Usage: "predict a training step on more cores than there are",
		Description: `For each number of threads the work is cut as for that many, run on one thread, and every piece timed. Then the pieces are
handed out in thought: in order, each to the thread that is free first, one operation after the other, with the measured costs of a thread
that joins and of a piece handed out. Threads are taken to be as fast together as alone: where they share a cache's or the memory's bandwidth, or
where the clock falls with the number of busy cores, they are not. Steps on up to --cores threads are measured as well; waiting threads spin, so that on a busy machine the time on the cores, divided
by threads, is what the step would take on an idle one, and the lesser of the two is compared.

   cpu scaling --model resnet18-imagenet --batch 64 --ops`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "model", Value: cli.NewStringSlice("resnet18-imagenet", "resnet18-cifar", "mlp")},
			&cli.IntSliceFlag{Name: "batch", Value: cli.NewIntSlice(64, 128)},
			&cli.IntSliceFlag{Name: "threads", Value: cli.NewIntSlice(1, 2, 4, 8, 16, 32, 64)},
			&cli.StringSliceFlag{Name: "dtype", Value: cli.NewStringSlice("float32"), Usage: "float32, bf16"},
			&cli.IntFlag{Name: "steps", Value: 3, Usage: "of which the shortest time of each piece counts"},
			&cli.DurationFlag{Name: "time", Value: time.Second, Usage: "of measuring what can be measured"},
			&cli.IntFlag{Name: "cores", Value: 2, Usage: "measure, too, up to so many threads (0: none)"},
			&cli.DurationFlag{Name: "join", Usage: "cost of a thread that joins a run, and of waiting for it at the end (0: measured)"},
			&cli.DurationFlag{Name: "hand-out", Usage: "cost of handing out a piece (0: measured)"},
			&cli.BoolFlag{Name: "ops", Usage: "list the operations that lose most"},
		},
		Action: scaling,
	}
}

// scaling predicts the steps of all models that are asked for.
func scaling(c *cli.Context) error {
	if err := header(c); err != nil {
		return err
	}
	cost := costs{join: c.Duration("join"), handOut: c.Duration("hand-out")}
	if cost.join == 0 || cost.handOut == 0 {
		m := measureCosts()
		cost.join, cost.handOut = cmp.Or(cost.join, m.join), cmp.Or(cost.handOut, m.handOut)
	}
	fmt.Fprintf(c.App.Writer, "# a thread joins a run in %v, a piece is handed out in %v\n", cost.join, cost.handOut)
	for _, model := range c.StringSlice("model") {
		for _, dtype := range c.StringSlice("dtype") {
			for _, batch := range c.IntSlice("batch") {
				if err := scaleThreads(c, work{model: model, batch: batch, dtype: dtype}, cost); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// scaleThreads predicts a step on each number of threads, compared with the first of them.
func scaleThreads(c *cli.Context, w work, cost costs) error {
	one := time.Duration(0)
	for _, threads := range c.IntSlice("threads") {
		w.threads = threads
		took, err := scaleTo(c, w, cost, one)
		if err != nil {
			return err
		}
		if one == 0 {
			one = took * time.Duration(threads)
		}
	}
	return nil
}

// scaleTo predicts and prints one step, whose time on one thread is known or, for the first, its
// own.
func scaleTo(c *cli.Context, w work, cost costs, one time.Duration) (time.Duration, error) {
	t, err := newTraining(w)
	if err != nil {
		return 0, err
	}
	defer t.Close()

	// The first step touches the memory.
	if err := t.Step(c.Context); err != nil {
		return 0, err
	}
	ops, err := t.parts(c.Context, max(1, c.Int("steps")))
	if err != nil {
		return 0, err
	}
	p := predict(ops, w.threads, cost)
	if one == 0 {
		one = p.took * time.Duration(w.threads)
	}
	efficiency := one.Seconds() / p.took.Seconds() / float64(w.threads)
	fmt.Fprintf(c.App.Writer, "BenchmarkScaling/%v \t1\t%d ns/op\t%.0f images/s\t%.2f efficiency", w, p.took.Nanoseconds(), float64(w.batch)/p.took.Seconds(), efficiency)
	if w.threads <= c.Int("cores") {
		best, err := bestStep(c.Context, c.Duration("time"), t.Step)
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(c.App.Writer, "\t%d best-ns/op\t%d best-cpu-ns/thread\t%.2f measured/predicted", best.wall.Nanoseconds(),
			best.cpu.Nanoseconds()/int64(w.threads), min(best.wall, best.cpu/time.Duration(w.threads)).Seconds()/p.took.Seconds())
	}
	fmt.Fprintln(c.App.Writer)
	if w.threads < 16 {
		return p.took, nil
	}
	idle := p.took*time.Duration(w.threads) - p.worked
	fmt.Fprintf(c.App.Writer, "#   %4.1f %% of the threads' time is idle:", 100*idle.Seconds()/(p.took.Seconds()*float64(w.threads)))
	for _, k := range byKind(p.losses)[:min(4, len(byKind(p.losses)))] {
		fmt.Fprintf(c.App.Writer, " %s %.1f %%", k.kind, 100*k.lost.Seconds()/(p.took.Seconds()*float64(w.threads)))
	}
	fmt.Fprintln(c.App.Writer)
	if !c.Bool("ops") {
		return p.took, nil
	}
	slices.SortStableFunc(p.losses, func(a, b loss) int { return cmp.Compare(b.lost, a.lost) })
	for _, l := range p.losses[:min(12, len(p.losses))] {
		fmt.Fprintf(c.App.Writer, "#     %5.2f %%  %8.1f µs  pieces %3d  serial %6.1f µs  %s\n", 100*l.lost.Seconds()/(p.took.Seconds()*float64(w.threads)),
			1e6*l.took.Seconds(), l.pieces, 1e6*l.serial.Seconds(), l.op)
	}
	return p.took, nil
}

// A prediction is one step on some threads.
type prediction struct {
	took time.Duration

	// worked is the time of all threads together.
	worked time.Duration

	// losses has one for each operation.
	losses []loss
}

// A loss is what an operation leaves idle.
type loss struct {
	kind, op string

	// lost is threads · took less the time in which they worked.
	lost time.Duration

	took, serial time.Duration

	// pieces are those of the longest run; 0: it had none.
	pieces int
}

// predict replays the pieces of all operations on some threads, one operation after the other. What
// an operation does outside of its runs is serial.
func predict(ops []nn.OpParts, threads int, cost costs) prediction {
	var p prediction
	for _, o := range ops {
		l := loss{kind: o.Kind, op: o.Op, took: o.Serial, serial: o.Serial}
		worked := o.Serial
		longest := time.Duration(-1)
		for _, run := range o.Runs {
			took := cost.replay(run, threads)
			if took > longest {
				longest, l.pieces = took, len(run)
			}
			l.took += took
			for _, d := range run {
				worked += d
			}
		}
		l.lost = l.took*time.Duration(threads) - worked
		p.took, p.worked, p.losses = p.took+l.took, p.worked+worked, append(p.losses, l)
	}
	return p
}

// byKind adds losses up by kind, the greatest first.
func byKind(losses []loss) []loss {
	var kinds []loss
	for _, l := range losses {
		i := slices.IndexFunc(kinds, func(k loss) bool { return k.kind == l.kind })
		if i < 0 {
			i, kinds = len(kinds), append(kinds, loss{kind: l.kind})
		}
		kinds[i].lost += l.lost
	}
	slices.SortStableFunc(kinds, func(a, b loss) int { return cmp.Compare(b.lost, a.lost) })
	return kinds
}

// parts are those of the program and, as an operation of its own, of the update.
func (t *training) parts(ctx context.Context, n int) ([]nn.OpParts, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ops, err := t.program.Parts(ctx, n, threadTime())
	if err != nil {
		return nil, err
	}
	update := nn.OpParts{Kind: "Update", Op: "Update of all parameters"}
	threads := pool.New(1)
	defer threads.Close()
	threads.Record(threadTime(), func(parts []time.Duration) {
		if update.Runs == nil {
			update.Runs = [][]time.Duration{parts}
		}
		for i, d := range parts {
			update.Runs[0][i] = min(update.Runs[0][i], d)
		}
	})
	for range n {
		threads.Run(len(t.pieces), t.update)
		t.step++
	}
	return append(ops, update), nil
}

// bestStep is the shortest time, and the least time on the cores, of the steps that fit into d.
func bestStep(ctx context.Context, d time.Duration, step func(ctx context.Context) error) (spell, error) {
	best := spell{wall: time.Hour, cpu: time.Hour}
	for start := time.Now(); best.steps == 0 || time.Since(start) < d; best.steps++ {
		one, err := spellOf(ctx, 0, step)
		if err != nil {
			return best, err
		}
		best.wall, best.cpu = min(best.wall, one.wall), min(best.cpu, one.cpu)
	}
	return best, nil
}
