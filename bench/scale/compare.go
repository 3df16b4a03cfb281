package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/bench/costs"
)

func compareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "hold predictions of rounds without computing against what bench/kv measured",
		ArgsUsage: "FILE...",
		Description: `Reads the lines of the work resnet18 (- is standard input) and predicts each job with all processes on one host of
--cores cores; with --link every worker and every server has a host of its own, with that link.

   kv -work resnet18 -jobs 1x1,2x1,2x2,4x4 -transport tcp > kv.txt; scale compare --costs costs.json kv.txt`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "costs", Required: true, Usage: "`FILE` that bench/kv -stages wrote"},
			&cli.IntFlag{Name: "cores", Value: 2, Usage: "of the host"},
			&cli.Float64Flag{Name: "link", Usage: "Gbit/s of each host each way (0: all on one host)"},
			&cli.Float64Flag{Name: "medium", Usage: "Gbit/s of the host's loopback, both ways together, where tc limits it (0: no limit)"},
			&cli.DurationFlag{Name: "latency", Value: 50 * time.Microsecond, Usage: "from host to host"},
		},
		Action: compare,
	}
}

// A measurement is one job's lines.
type measurement struct {
	workers, servers int
	transport        string
	round            []float64 // seconds, the median of each run
	least            []float64 // of all samples
	cpu              []float64 // seconds on all cores, for a round of all workers
}

func compare(c *cli.Context) error {
	measured, err := costs.Read(c.String("costs"))
	if err != nil {
		return err
	}
	if c.NArg() == 0 {
		return fmt.Errorf("compare: want files that bench/kv wrote, or -")
	}
	var all []*measurement
	for _, name := range c.Args().Slice() {
		in := io.Reader(os.Stdin)
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			in = f
		}
		if all, err = readMeasurements(in, all); err != nil {
			return fmt.Errorf("compare %s: %w", name, err)
		}
	}
	fmt.Fprintln(c.App.Writer, "| workers × servers | transport | predicted round, ms | measured: least / median | predicted ÷ median | CPU of a round, ms: predicted | measured | predicted ÷ measured |")
	fmt.Fprintln(c.App.Writer, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, m := range all {
		one := cluster{workers: m.workers, servers: m.servers, perHost: 1, placement: oneHost, cores: c.Int("cores"), threads: 1, link: c.Float64("medium") * 1e9 / 8, llc: measured.LLC, costs: measured,
			transport: m.transport, rule: "none", push: "none", pull: "none", model: resnet18(false), rounds: 5, fold: 1}
		for l := range one.model.layers {
			one.model.layers[l].forward, one.model.layers[l].backward = 0, 0
		}
		if link := c.Float64("link"); link > 0 {
			one.placement, one.link, one.latency = ownHosts, link*1e9/8, c.Duration("latency").Seconds()
		}
		r, err := simulate(&one)
		if err != nil {
			return err
		}
		least, mid, cpu := slices.Min(append(m.least, m.round...)), middle(m.round), middle(m.cpu)
		fmt.Fprintf(c.App.Writer, "| %d × %d | %s | %.1f | %.1f / %.1f | %.2f | %.1f | %.1f | %.2f |\n", m.workers, m.servers, m.transport,
			1e3*r.round, 1e3*least, 1e3*mid, r.round/mid, 1e3*r.cpu, 1e3*cpu, r.cpu/cpu)
	}
	return nil
}

// readMeasurements adds the lines BenchmarkKV/work=resnet18/... to those that are there.
func readMeasurements(in io.Reader, all []*measurement) ([]*measurement, error) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) > 5 && f[0] == "resnet18" && f[2] == "×" { // the table at the end: workers × servers, transport, least
			d, err := time.ParseDuration(f[5])
			for _, m := range all {
				if err == nil && fmt.Sprint(m.workers) == f[1] && fmt.Sprint(m.servers) == f[3] && m.transport == f[4] {
					m.least = append(m.least, d.Seconds())
				}
			}
			continue
		}
		if len(f) < 4 || !strings.HasPrefix(f[0], "BenchmarkKV/work=resnet18/") {
			continue
		}
		m := &measurement{}
		for part := range strings.SplitSeq(f[0], "/") {
			name, value, _ := strings.Cut(part, "=")
			var err error
			switch name {
			case "workers":
				m.workers, err = strconv.Atoi(value)
			case "servers":
				m.servers, err = strconv.Atoi(value)
			case "transport":
				m.transport = value
			}
			if err != nil {
				return nil, fmt.Errorf("line %q: %w", f[0], err)
			}
		}
		if i := slices.IndexFunc(all, func(x *measurement) bool {
			return x.workers == m.workers && x.servers == m.servers && x.transport == m.transport
		}); i >= 0 {
			m = all[i]
		} else {
			all = append(all, m)
		}
		for i := 3; i < len(f); i += 2 {
			x, err := strconv.ParseFloat(f[i-1], 64)
			if err != nil {
				return nil, fmt.Errorf("line %q: %w", f[0], err)
			}
			switch f[i] {
			case "ns/op":
				m.round = append(m.round, x/1e9)
			case "cpu-ns/op": // of one worker's operation
				m.cpu = append(m.cpu, x/1e9*float64(m.workers))
			}
		}
		if len(m.round) != len(m.cpu) || len(m.round) == 0 {
			return nil, fmt.Errorf("line %q: want a number of ns/op and of cpu-ns/op", f[0])
		}
	}
	return all, nil
}

func middle(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
