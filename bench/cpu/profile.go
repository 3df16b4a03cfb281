package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/paragon-train/paragon/nn"
	"github.com/urfave/cli/v2"
	"gorgonia.org/gorgonia"
)

// profileCommand tells which operations a step is spent on.
func profileCommand() *cli.Command {
	return &cli.Command{
		Name:  "profile",
		Usage: "the time of a step by kind of operation, without the update",
		Flags: append(workFlags(),
			&cli.IntFlag{Name: "steps", Value: 3, Usage: "the shortest time of each operation counts"},
			&cli.IntFlag{Name: "ops", Usage: "list so many of the longest operations, too"}),
		Action: profile,
	}
}

func profile(c *cli.Context) (err error) {
	w := workOf(c)
	p, err := w.profiled()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	times, err := p.Profile(c.Context, max(1, c.Int("steps")))
	if err != nil {
		return err
	}
	byKind, all := make(map[string]time.Duration), time.Duration(0)
	for _, t := range times {
		byKind[t.Kind] += t.Time
		all += t.Time
	}
	line := func(name string, t time.Duration) {
		fmt.Fprintf(c.App.Writer, "%-28s %9.3f ms %5.1f %%\n", name, float64(t)/1e6, 100*float64(t)/float64(all))
	}
	kinds := slices.SortedFunc(maps.Keys(byKind), func(a, b string) int { return cmp.Or(cmp.Compare(byKind[b], byKind[a]), cmp.Compare(a, b)) })
	for _, kind := range kinds {
		line(kind, byKind[kind])
	}
	line("all", all)
	slices.SortStableFunc(times, func(a, b nn.OpTime) int { return cmp.Compare(b.Time, a.Time) })
	for _, t := range times[:min(len(times), max(0, c.Int("ops")))] {
		fmt.Fprintf(c.App.Writer, "%9.3f ms  %s\n", float64(t.Time)/1e6, t.Op)
	}
	return nil
}

// profiled is the program of the work; that of sampleName is for one token.
func (w work) profiled() (*nn.Program, error) {
	if w.model != sampleName {
		return w.compile()
	}
	cfg, g := gpt2, gorgonia.NewGraph()
	for i := range cfg.Layers {
		cfg.Cache = append(cfg.Cache, nn.NewKVCache(fmt.Sprintf("cache.%d", i), cfg.Positions))
	}
	cfg.First = nn.IDs(g, "first", 1)
	p, err := nn.Compile(nn.GPT(nn.IDs(g, "tokens", 1, 1), cfg), nn.Config{Inference: true, Threads: w.threads})
	if err != nil {
		return nil, err
	}
	first, err := p.IDs("first")
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	first.Set([]int32{prompt})
	return p, nil
}
