package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/bench/costs"
)

// steps are the times of a step of 64 examples by threads that are idle, see
// docs/design/measured/0004-pytorch.md.
var steps = map[string]map[int]time.Duration{
	"resnet18-imagenet": {1: 61 * time.Millisecond, 2: 44 * time.Millisecond},
	"resnet18-cifar":    {1: 703 * time.Millisecond, 2: 368 * time.Millisecond},
}

func predictCommand() *cli.Command {
	return &cli.Command{
		Name:  "predict",
		Usage: "predict steps by number of workers and by link, and how many servers they want",
		Description: `For each link and number of workers it tries 1, 2, 4, ... servers. "enough" is the smallest number within 5 % of the best
one; the step, its images a second and what is busiest are those with enough servers.

   scale predict --costs costs.json --model resnet18-cifar --workers 8,64,512 --links 1,10
   scale predict --costs costs.json --cores 16 --per-host 16 --threads 1 --placement shared --links 25 --workers 256,1024`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "costs", Required: true, Usage: "`FILE` that bench/kv -stages wrote"},
			&cli.StringFlag{Name: "model", Value: "resnet18-imagenet", Usage: "resnet18-imagenet or resnet18-cifar"},
			&cli.IntFlag{Name: "batch", Value: 64, Usage: "examples of a step of one worker"},
			&cli.DurationFlag{Name: "step", DefaultText: "as measured on one or two cores with 64 examples", Usage: "time of a worker's computing on its own"},
			&cli.IntFlag{Name: "cores", Value: 2, Usage: "of each host"},
			&cli.Float64Flag{Name: "cache", DefaultText: "as much for a core as where the costs were measured", Usage: "MB of each host's last-level cache"},
			&cli.IntFlag{Name: "threads", Value: 2, Usage: "that compute on each worker"},
			&cli.IntSliceFlag{Name: "workers", Value: cli.NewIntSlice(8, 16, 32, 64, 128, 256, 512, 1024), Usage: "multiples of --per-host; of the default those that are"},
			&cli.IntFlag{Name: "per-host", Value: 1, Usage: "workers of a host"},
			&cli.Float64SliceFlag{Name: "links", Value: cli.NewFloat64Slice(1, 10, 25, 100), Usage: "of each host, in Gbit/s each way"},
			&cli.DurationFlag{Name: "latency", Value: 50 * time.Microsecond, Usage: "from host to host"},
			&cli.StringFlag{Name: "transport", Value: "tcp", Usage: "whose costs"},
			&cli.StringFlag{Name: "rule", Value: "sgd+momentum", Usage: "of the update on the servers"},
			&cli.StringFlag{Name: "push", Value: "none", Usage: "code of gradients: none, fp16, bf16, 2bit, 1bit"},
			&cli.StringFlag{Name: "pull", Value: "none", Usage: "code of values: none, fp16, bf16"},
			&cli.BoolFlag{Name: "sums", Value: true, Usage: "workers of a host add up before one push leaves it"},
			&cli.BoolFlag{Name: "together", Value: true, Usage: "small keys travel as one message for each server"},
			&cli.StringFlag{Name: "placement", Value: ownHosts, Usage: "servers on hosts of their own (own) or beside the workers, as launch places them (shared)"},
			&cli.IntFlag{Name: "max-servers", Value: 256},
		},
		Action: predict,
	}
}

// predict checks all clusters before it simulates the first: a run takes minutes.
func predict(c *cli.Context) error {
	measured, err := costs.Read(c.String("costs"))
	if err != nil {
		return err
	}
	m, err := modelOf(c.String("model"))
	if err != nil {
		return err
	}
	threads := c.Int("threads")
	step := c.Duration("step")
	if step == 0 {
		if step = steps[m.name][threads]; step == 0 {
			return fmt.Errorf("--threads is %d: no step was measured on so many, want --step", threads)
		}
	}
	m = m.withStep(step.Seconds() * float64(threads))
	m.batch = c.Int("batch")
	cache := c.Float64("cache") * 1e6
	if cache == 0 {
		cache = measured.LLC / float64(measured.Cores) * float64(c.Int("cores"))
	}
	clusters, err := predicted(c, cluster{perHost: c.Int("per-host"), servers: 1, placement: c.String("placement"), cores: c.Int("cores"), threads: threads,
		latency: c.Duration("latency").Seconds(), llc: cache, costs: measured, transport: c.String("transport"), rule: c.String("rule"),
		push: c.String("push"), pull: c.String("pull"), sums: c.Bool("sums"), together: c.Bool("together"), model: m, rounds: 3, fold: 1})
	if err != nil {
		return err
	}
	how := map[bool]string{true: "on", false: "off"}
	fmt.Fprintf(c.App.Writer, "%s, %d examples and %v of computing a step on %d threads; hosts of %d cores and %d workers, %.0f MB of cache, servers on %s hosts, %v from host to host; %s, %s; "+
		"gradients %s, values %s; sums within a host %s, small keys together %s. Costs measured on %s, commit %s.\n\n", m.name, m.batch, step, threads, c.Int("cores"), c.Int("per-host"), cache/1e6, c.String("placement"),
		c.Duration("latency"), c.String("transport"), c.String("rule"), c.String("push"), c.String("pull"), how[c.Bool("sums")], how[c.Bool("together")], measured.Machine, measured.Commit)
	fmt.Fprintln(c.App.Writer, "| link | workers | servers: best | enough | step, ms | examples/s | of linear | busiest |")
	fmt.Fprintln(c.App.Writer, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, one := range clusters {
		best, enough, r, err := tryServers(one, c.Int("max-servers"))
		if err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "| %.6g Gbit/s | %d | %d | %d | %.1f | %.0f | %.2f | %s |\n", one.link*8/1e9, one.workers, best, enough, 1e3*r.round,
			float64(one.workers*m.batch)/r.round, step.Seconds()/r.round, r.busiest())
	}
	return nil
}

// predicted returns the clusters of all links and numbers of workers, which are as base otherwise,
// or the error of the first that cannot be.
func predicted(c *cli.Context, base cluster) (all []cluster, err error) {
	for _, link := range c.Float64Slice("links") {
		if !(link > 0) {
			return nil, fmt.Errorf("--links has %v, want more than 0 Gbit/s", link)
		}
		for _, workers := range c.IntSlice("workers") {
			one := base
			one.workers, one.link = workers, link*1e9/8
			if !c.IsSet("workers") && one.perHost > 0 && workers%one.perHost != 0 {
				continue
			}
			if one.placement == ownHosts && one.perHost > 0 {
				one.fold = foldOf(workers / one.perHost)
			}
			if err := one.validate(); err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--per-host is %d: none of the default numbers of workers is a multiple; want --workers", base.perHost)
	}
	return all, nil
}

// modelOf is the model of a name, with a step of one second.
func modelOf(name string) (model, error) {
	switch name {
	case "resnet18-imagenet":
		return resnet18(false), nil
	case "resnet18-cifar":
		return resnet18(true), nil
	}
	return model{}, fmt.Errorf("--model is %q, want resnet18-imagenet or resnet18-cifar", name)
}

// foldOf is how many hosts are simulated as one, so that at most 32 are left.
func foldOf(hosts int) int {
	for fold := 1; fold < hosts; fold++ {
		if hosts%fold == 0 && hosts/fold <= 32 {
			return fold
		}
	}
	return 1
}

// tryServers simulates 1, 2, 4, ... servers, at most as many as workers, until two in a row are no
// better.
func tryServers(c cluster, most int) (best, enough int, r result, err error) {
	var all []result
	at, worse := 0, 0
	for c.servers = 1; c.servers <= max(1, min(c.workers, most)) && worse < 2; c.servers *= 2 {
		r, err := simulate(&c)
		if err != nil {
			return 0, 0, r, err
		}
		all = append(all, r)
		if i := len(all) - 1; r.round < all[at].round*0.999 {
			at, worse = i, 0
		} else if i > 0 {
			worse++
		}
	}
	for i, r := range all {
		if r.round <= 1.05*all[at].round {
			return 1 << at, 1 << i, r, nil
		}
	}

	// The best one is within 5 % of itself.
	return 0, 0, r, nil
}

// busiest names what is used most of the time.
func (r result) busiest() string {
	name, share := "workers' cores", r.workerBusy
	if r.serverBusy > share {
		name, share = "servers' cores", r.serverBusy
	}
	if r.linkBusy > share {
		name, share = "links", r.linkBusy
	}
	return fmt.Sprintf("%s %.0f %%", strings.TrimSpace(name), 100*share)
}
