// Command pollux simulates the cluster of the Pollux paper (OSDI 2021): 16 nodes with 4 GPUs each,
// 160 jobs in 8 hours, and policies that divide the GPUs among them.
//
//	go run ./bench/pollux --data FOLDER
//	go run ./bench/pollux --data FOLDER --policy tiresias,optimus --workloads 6
//	go run ./bench/pollux --data FOLDER --policy optimus --workloads 6 --jobs
//
// FOLDER has what petuum/adaptdl publishes on its branch osdi21-artifact: traces/APPLICATION with
// placements.csv, scalability.csv and validation-BATCH.csv; workloads/workload-N.csv; and, where
// there are published results to compare with, published.json.
//
// A row is a policy and a workload: the mean and the 99th percentile of the jobs' completion times
// in seconds, the published mean and how ours compares with it, how many jobs end in the very
// second that was published, restarts for each job, and the time that a decision takes.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/adapt/allocate"
	"github.com/paragon-train/paragon/bench/pollux/internal/trace"
)

func main() {
	if err := newApp().Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "pollux:", err)
		os.Exit(1)
	}
}

// options are what the command line says to some policies.
type options struct {
	seed        uint64
	generations int
}

// policies are what --policy may name, in the table's order. A policy has state, so that each
// simulation gets its own.
var policies = []struct {
	name string

	// published is the policy of published.json that the mean is compared with.
	published string

	make func(options) policy
}{
	{"tiresias", "tiresias", func(options) policy { return newTiresias() }},
	{"optimus", "optimus", func(options) policy { return optimus{} }},
	{"pollux", "pollux", func(o options) policy { return newGenetic(o.seed, o.generations) }},
	{"paragon", "pollux", func(options) policy { return newParagon(allocate.Completion) }},
	{"paragon-fair", "pollux", func(options) policy { return newParagon(allocate.Fair) }},
}

func policyNames() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "pollux",
		Usage:           "simulate policies that divide a cluster among jobs",
		HideHelpCommand: true,
		ExitErrHandler:  func(*cli.Context, error) {},
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "data", Usage: "folder with traces, workloads and published.json", Required: true},
			&cli.IntSliceFlag{Name: "workloads", Usage: "numbers of workloads", Value: cli.NewIntSlice(1, 2, 3, 4, 6)},
			&cli.StringSliceFlag{Name: "policy", Usage: "some of " + strings.Join(policyNames(), ", "), Value: cli.NewStringSlice(policyNames()...)},
			&cli.DurationFlag{Name: "restart-cost", Usage: "how long a job stands still when its allocation changes", Value: 30 * time.Second},
			&cli.DurationFlag{Name: "cycle", Usage: "time between decisions", Value: time.Minute},
			&cli.IntFlag{Name: "nodes", Usage: "number of nodes", Value: 16},
			&cli.IntFlag{Name: "slots", Usage: "GPUs of a node", Value: 4},
			&cli.Float64Flag{Name: "interference", Usage: "part of its speed that a job on several nodes loses where it shares one with another such job"},
			&cli.Uint64Flag{Name: "seed", Usage: "of the random numbers of policy pollux", Value: 1},
			&cli.IntFlag{Name: "generations", Usage: "of the genetic algorithm of policy pollux, for each decision", Value: 100},
			&cli.BoolFlag{Name: "jobs", Usage: "print each job's time, too"},
		},
		Action: run,
	}
}

func settingsOf(c *cli.Context) (settings, error) {
	s := settings{nodes: c.Int("nodes"), slots: c.Int("slots"), interference: c.Float64("interference")}
	for _, d := range []struct {
		name  string
		least time.Duration
		to    *int
	}{{"restart-cost", 0, &s.cost}, {"cycle", time.Second, &s.cycle}} {
		v := c.Duration(d.name)
		if v < d.least || v%time.Second != 0 {
			return s, fmt.Errorf("--%s is %v, want whole seconds, at least %v", d.name, v, d.least)
		}
		*d.to = int(v / time.Second)
	}
	switch {
	case s.nodes < 1 || s.nodes > 16:
		return s, fmt.Errorf("--nodes is %d, want 1 to 16, which were measured", s.nodes)
	case s.slots < 1 || s.slots > 4:
		return s, fmt.Errorf("--slots is %d, want 1 to 4, which were measured", s.slots)
	case c.Int("generations") < 1:
		return s, fmt.Errorf("--generations is %d, want at least 1", c.Int("generations"))
	case !(s.interference >= 0 && s.interference < 1):
		return s, fmt.Errorf("--interference is %v, want 0 to less than 1", s.interference)
	}
	return s, nil
}

// run simulates every policy on every workload, in the order of the table.
func run(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("got %q, want flags only", c.Args().First())
	}
	s, err := settingsOf(c)
	if err != nil {
		return err
	}
	for _, name := range c.StringSlice("policy") {
		if !slices.Contains(policyNames(), name) {
			return fmt.Errorf("--policy has %q, want some of %s", name, strings.Join(policyNames(), ", "))
		}
	}
	data := c.Path("data")
	apps, err := trace.Load(filepath.Join(data, "traces"))
	if err != nil {
		return err
	}
	published, err := trace.LoadPublished(filepath.Join(data, "published.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	workloads := map[int][]trace.Job{}
	for _, n := range c.IntSlice("workloads") {
		if workloads[n], err = trace.LoadWorkload(filepath.Join(data, "workloads", workloadName(n)+".csv")); err != nil {
			return err
		}
	}
	t := newTable(c.App.Writer)
	for _, p := range policies {
		if !slices.Contains(c.StringSlice("policy"), p.name) {
			continue
		}
		var rows []row
		for _, n := range c.IntSlice("workloads") {
			o, err := simulate(s, apps, workloads[n], p.make(options{c.Uint64("seed"), c.Int("generations")}))
			if err != nil {
				return fmt.Errorf("%s, workload %d: %w", p.name, n, err)
			}
			r := summarize(o, published[p.published][workloadName(n)])
			r.policy, r.workload = p.name, fmt.Sprint(n)
			rows = append(rows, r)
			t.print(r)
			if c.Bool("jobs") {
				t.printJobs(o, published[p.published][workloadName(n)])
			}
		}
		if len(rows) > 1 {
			t.print(mean(p.name, rows))
		}
	}
	return t.w.Flush()
}

func workloadName(n int) string { return fmt.Sprintf("workload-%d", n) }

// A row is one of the table. Times are seconds; published is 0 where nothing was.
type row struct {
	policy, workload        string
	mean, published, p99    float64
	exact                   int
	restarts                float64
	decision, worstDecision time.Duration
}

// summarize makes the row of one simulation. Exact counts the jobs that took the published time to
// the second.
func summarize(o *outcome, published trace.Result) row {
	r := row{published: published.Mean}
	var times []int
	for _, j := range o.jobs {
		t := j.ended - j.Arrival
		times = append(times, t)
		r.mean += float64(t) / float64(len(o.jobs))
		r.restarts += float64(j.restarts) / float64(len(o.jobs))
		if want, ok := published.Jobs[j.Name]; ok && want == t {
			r.exact++
		}
	}
	slices.Sort(times)
	r.p99 = float64(times[min(len(times)-1, int(math.Ceil(0.99*float64(len(times))))-1)])
	var sum time.Duration
	for _, d := range o.decisions {
		sum += d
		r.worstDecision = max(r.worstDecision, d)
	}
	r.decision = sum / time.Duration(len(o.decisions))
	return r
}

// mean is the row for all workloads: means of means, and the sum of jobs that are exact.
func mean(policy string, rows []row) row {
	m := row{policy: policy, workload: "mean"}
	n := float64(len(rows))
	for _, r := range rows {
		m.mean += r.mean / n
		m.published += r.published / n
		m.p99 += r.p99 / n
		m.exact += r.exact
		m.restarts += r.restarts / n
		m.decision += r.decision / time.Duration(len(rows))
		m.worstDecision = max(m.worstDecision, r.worstDecision)
	}
	return m
}

type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)}
	fmt.Fprintln(t.w, "| policy\t| workload\t| mean\t| published\t| ratio\t| exact jobs\t| p99\t| restarts\t| decision\t| longest\t|")
	fmt.Fprintln(t.w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	return t
}

func (t table) print(r row) {
	published, ratio := "-", "-"
	if r.published > 0 {
		published, ratio = fmt.Sprintf("%.1f", r.published), fmt.Sprintf("%.3f", r.mean/r.published)
	}
	fmt.Fprintf(t.w, "| %s\t| %s\t| %.1f\t| %s\t| %s\t| %d\t| %.0f\t| %.1f\t| %.2f ms\t| %.2f ms\t|\n", r.policy, r.workload, r.mean, published, ratio, r.exact,
		r.p99, r.restarts, 1e3*r.decision.Seconds(), 1e3*r.worstDecision.Seconds())
}

func (t table) printJobs(o *outcome, published trace.Result) {
	for _, j := range o.jobs {
		want := "-"
		if p, ok := published.Jobs[j.Name]; ok {
			want = fmt.Sprint(p)
		}
		fmt.Fprintf(t.w, "| \t| %s\t| %d\t| %s\t| \t| \t| \t| %d\t|\n", j.Name, j.ended-j.Arrival, want, j.restarts)
	}
}
