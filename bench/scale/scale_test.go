package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/bench/costs"
)

// plain is a cluster whose moving, sums and updates cost nothing, with one key of 1000 values, 4000 bytes.
func plain(workers, servers int) *cluster {
	return &cluster{workers: workers, servers: servers, placement: ownHosts, cores: 2, threads: 1, link: 1000, latency: 0.5,
		costs:     &costs.Costs{Cores: 2, Transports: map[string]costs.Transport{"tcp": {}}, Update: map[string]float64{"none": 0, "sgd": 0.001}},
		transport: "tcp", rule: "none", model: model{layers: []layer{{keys: []int{1000}}}}, rounds: 3, fold: 1}
}

func TestEventsHappenInOrder(t *testing.T) {
	var c clock
	var got []string
	note := func(s string) func() { return func() { got = append(got, fmt.Sprint(s, c.now)) } }
	c.at(2, note("b"))
	c.at(1, func() { note("a")(); c.after(1, note("c")); c.at(0, note("late")) })
	c.at(2, note("d"))
	c.run()
	if want := []string{"a1", "late1", "b2", "d2", "c2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCoresTakeWorkInOrder(t *testing.T) {
	var c clock
	h := cores{clock: &c, free: 2}
	var ends []float64
	for _, d := range []float64{3, 1, 1, 5} { // 0–3 | 0–1, 1–2, 2–7
		h.run(d, func() { ends = append(ends, c.now) })
	}
	h.split(4, 2, func() { ends = append(ends, c.now) }) // halves at 3–5 and 5–7
	c.run()
	if want := []float64{1, 2, 3, 7, 7}; !slices.Equal(ends, want) {
		t.Errorf("got ends %v, want %v", ends, want)
	}
	if h.busy != 14 || h.free != 2 {
		t.Errorf("busy for %v s and %d free, want 14 and 2", h.busy, h.free)
	}
}

// Rounds of small clusters take what one works out by hand: 4000 bytes need 4 s on a link, and 0.5 s to arrive.
func TestRoundsOfSmallClusters(t *testing.T) {
	for _, test := range []struct {
		name string
		want float64
		edit func(c *cluster)
	}{
		{"one worker, one server: there and back", 2 * (0.5 + 4), func(c *cluster) {}},
		// The second one's gradient is there at 8.5, its value leaves when the first one's is gone, at 12.5, and arrives at 17; the
		// first one has begun the next round at 13, so rounds close every 13 s.
		{"two workers share the server's link", 0.5 + 8 + 4 + 0.5, func(c *cluster) { c.workers = 2 }},
		// Both values come back as their keys went: the second is there at 8.5 and back at 13.
		{"two keys on two servers share the worker's link", 0.5 + 8 + 4 + 0.5, func(c *cluster) {
			c.servers, c.model.layers[0].keys = 2, []int{1000, 1000}
		}},
		{"on one host no link counts, only the cores", 1 + 2 + 3 + 4, func(c *cluster) {
			c.placement, c.link = oneHost, 0
			c.costs.Transports["tcp"] = costs.Transport{PushWorker: costs.Line{Message: 1}, PushServer: costs.Line{Message: 2},
				PullServer: costs.Line{Message: 3}, PullWorker: costs.Line{Byte: 4. / 4000}}
		}},
		{"three workers on one core: two sums of 4 s, an update of 4 s", 3*2 + 2*4 + 4, func(c *cluster) {
			c.workers, c.placement, c.link, c.cores, c.rule, c.costs.Sum = 3, oneHost, 0, 1, "sgd", 0.001
			c.costs.Transports["tcp"] = costs.Transport{PushWorker: costs.Line{Message: 2}}
		}},
		{"a limited loopback carries both ways one after the other", 2 * (4 + 4), func(c *cluster) { c.workers, c.placement = 2, oneHost }},
		{"computing comes on top of what cannot hide", 5 + 2*(0.5+0.004), func(c *cluster) {
			c.link = 1e6
			c.model.layers = []layer{{keys: []int{1000}, backward: 4, forward: 1}}
		}},
		{"a worker in a server's host sends it nothing over the link", 0.5 + 4 + 0.5 + 4, func(c *cluster) { c.workers, c.placement = 2, shared }},
	} {
		c := plain(1, 1)
		test.edit(c)
		r, err := simulate(c)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if math.Abs(r.round-test.want) > 1e-9 {
			t.Errorf("%s: got a round of %v s, want %v", test.name, r.round, test.want)
		}
	}
}

// Backward goes on while gradients travel, and the next forward pass begins while values of later layers are still on their way.
func TestExchangeHidesBehindComputing(t *testing.T) {
	c := plain(1, 1)
	c.link = 4000 // each of the two keys takes 1 s each way
	c.latency = 0
	c.model.layers = []layer{{keys: []int{1000}, forward: 10, backward: 10}, {keys: []int{1000}, forward: 10, backward: 10}}
	r, err := simulate(c)
	if err != nil {
		t.Fatal(err)
	}
	if want := 40 + 2.; math.Abs(r.round-want) > 1e-9 { // only the first layer's gradient and value are waited for
		t.Errorf("got a step of %v s, want %v", r.round, want)
	}
}

// Workers that are simulated as one give nearly the rounds of each by itself.
func TestFoldingChangesLittle(t *testing.T) {
	c := plain(32, 4)
	c.model, c.link, c.latency, c.rounds = resnet18(false).withStep(0.05), 1.25e9, 50e-6, 3
	c.costs.Sum, c.rule = 5e-11, "sgd"
	c.costs.Update["sgd"] = 5e-11
	c.costs.Transports["tcp"] = costs.Transport{PushWorker: costs.Line{Message: 4e-6, Byte: 2e-10}, PushServer: costs.Line{Message: 3e-6, Byte: 1e-10},
		PullWorker: costs.Line{Byte: 2e-10}, PullServer: costs.Line{Byte: 2e-10}}
	each, err := simulate(c)
	if err != nil {
		t.Fatal(err)
	}
	c.fold = 4
	folded, err := simulate(c)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := folded.round / each.round; ratio < 0.95 || ratio > 1.1 {
		t.Errorf("32 workers one by one: %v s, in eights of 4: %v s; want within −5 and +10 %%", each.round, folded.round)
	}
}

func TestSimulationRepeats(t *testing.T) {
	c := plain(3, 2)
	c.model = resnet18(true).withStep(1)
	a, err := simulate(c)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := simulate(c); a != b {
		t.Errorf("two runs differ: %+v and %+v", a, b)
	}
}

func TestResNet18HasItsKeys(t *testing.T) {
	keys, values := 0, 0
	for _, l := range resnet18(false).layers {
		for _, n := range l.keys {
			keys, values = keys+1, values+n
		}
	}
	if keys != 62 || values != 11_181_642 {
		t.Errorf("got %d keys with %d values, want 62 with 11181642", keys, values)
	}
}

func writeCosts(t *testing.T) string {
	t.Helper()
	c := plain(1, 1).costs
	c.Transports["tcp"] = costs.Transport{PushWorker: costs.Line{Message: 1e-6, Byte: 1e-10}}
	c.Update["sgd"] = 1e-10
	path := filepath.Join(t.TempDir(), "costs.json")
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func scale(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := newApp()
	app.Writer, app.ErrWriter = &out, &out
	err := app.RunContext(t.Context(), append([]string{"scale"}, args...))
	return out.String(), err
}

func TestPredictPrintsARowForEachLinkAndSize(t *testing.T) {
	out, err := scale(t, "predict", "--costs", writeCosts(t), "--workers", "2,64", "--links", "1,10", "--rule", "sgd", "--max-servers", "4")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out, " Gbit/s | "); got != 4 {
		t.Errorf("got %d rows, want 4\n%s", got, out)
	}
}

func TestCompareReadsBenchmarkLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kv.txt")
	text := "BenchmarkKV/work=resnet18/workers=2/servers=1/transport=tcp 40 20000000 ns/op 1.0 MB/s 30000000 cpu-ns/op 1 first-ns/op\n" +
		"BenchmarkKV/work=resnet18/workers=2/servers=1/transport=tcp 40 10000000 ns/op 1.0 MB/s 20000000 cpu-ns/op 1 first-ns/op\nother\n" +
		"  resnet18              2 × 1        tcp   8ms  37.9ms     122ms                2.36                        26                                37.5ms\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := scale(t, "compare", "--costs", writeCosts(t), file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "| 2 × 1 | tcp | ") || !strings.Contains(out, "| 8.0 / 20.0 | ") {
		t.Errorf("want a row of 2 × 1 with 8 and 20 ms:\n%s", out)
	}
}

func TestRefusesByName(t *testing.T) {
	good := writeCosts(t)
	for _, test := range []struct{ args, want string }{
		{"predict --costs /nowhere", "/nowhere"},
		{"predict --costs " + good + " --model vgg", `--model is "vgg"`},
		{"predict --costs " + good + " --transport mail", `transport "mail"`},
		{"predict --costs " + good + " --rule x", `rule "x"`},
		{"predict --costs " + good + " --links 0", "--links"},
		{"predict --costs " + good + " --workers 0", "got 0 workers"},
		{"predict --costs " + good + " --placement moon", `placement is "moon"`},
		{"compare --costs " + good, "want files"},
	} {
		if _, err := scale(t, strings.Fields(test.args)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("scale %s: got error %v, want one with %q", test.args, err, test.want)
		}
	}
}
