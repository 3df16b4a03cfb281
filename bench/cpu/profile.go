package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/nn"
	"github.com/urfave/cli/v2"
)

func profileCommand() *cli.Command {
	return &cli.Command{
		Name:  "profile",
		Usage: "tell where the time of a step goes",
		Flags: append(workFlags(),
			&cli.IntFlag{Name: "steps", Value: 10, Usage: "of which the shortest time of each operation counts"},
			&cli.BoolFlag{Name: "ops", Usage: "list the operations, too"}),
		Action: profile,
	}
}

func profile(c *cli.Context) error {
	if err := header(c); err != nil {
		return err
	}
	w := workOf(c)
	p, err := w.compile()
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Step(c.Context, nil); err != nil {
		return err
	}
	ops, err := p.Profile(c.Context, max(1, c.Int("steps")))
	if err != nil {
		return err
	}
	total, kinds := time.Duration(0), []nn.OpTime{}
	for _, o := range ops {
		total += o.Time
		i := slices.IndexFunc(kinds, func(k nn.OpTime) bool { return k.Kind == o.Kind })
		if i < 0 {
			i, kinds = len(kinds), append(kinds, nn.OpTime{Kind: o.Kind})
		}
		kinds[i].Time += o.Time
	}
	slices.SortStableFunc(kinds, func(a, b nn.OpTime) int { return cmp.Compare(b.Time, a.Time) })
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / total.Seconds() }
	for _, k := range kinds {
		fmt.Fprintf(c.App.Writer, "BenchmarkKind/%v/kind=%s \t1\t%d ns/op\t%.1f percent\n", w, k.Kind, k.Time.Nanoseconds(), share(k.Time))
	}
	if c.Bool("ops") {
		for _, o := range ops {
			fmt.Fprintf(c.App.Writer, "# %8.3f ms %5.1f %%  %s\n", 1e3*o.Time.Seconds(), share(o.Time), o.Op)
		}
	}
	fmt.Fprintf(c.App.Writer, "# %v: %.3f ms; memory %v\n", w, 1e3*total.Seconds(), p.Memory())
	return nil
}
