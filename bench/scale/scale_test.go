package main

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/bench/costs"
)

// plain is a cluster whose moving, sums and updates cost nothing, with one key of 1000 values, 4000
// bytes.
func plain(workers, servers int) *cluster {
	return &cluster{workers: workers, servers: servers, perHost: 1, placement: ownHosts, cores: 2, threads: 1, link: 1000, latency: 0.5,
		costs: &costs.Costs{Cores: 2, Transports: map[string]costs.Transport{"tcp": {}, "auto": {}}, Update: map[string]costs.Line{"none": {}, "sgd": same(0.001)},
			Encode: map[string]costs.Line{"none": {}, "fp16": {}, "2bit": {}}, Decode: map[string]costs.Line{"none": {}, "fp16": {}, "2bit": {}}},
		transport: "tcp", rule: "none", push: "none", pull: "none", model: model{layers: []layer{{keys: []int{1000}}}}, rounds: 3, fold: 1}
}

// same is a cost of a byte wherever it is.
func same(x float64) costs.Line { return costs.Line{Byte: x, Far: x} }

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

// Tasks share the cores alike: three on two cores each go on at two thirds of a core's speed.
func TestCoresAreShared(t *testing.T) {
	var c clock
	h := cores{clock: &c, n: 2}
	ends := map[string]float64{}
	note := func(name string) func() { return func() { ends[name] = c.now } }
	h.run(3, 1, note("long"))

	// These take 1.5 s at two thirds of the speed; then 2 s are left of the long one.
	h.run(1, 2, note("two at once"))
	c.at(10, func() { h.run(1, 4, note("four on two")) })
	c.run()
	for name, want := range map[string]float64{"two at once": 1.5, "long": 3.5, "four on two": 12} {
		if math.Abs(ends[name]-want) > 1e-9 {
			t.Errorf("%s: got an end at %v s, want %v", name, ends[name], want)
		}
	}
	if math.Abs(h.busy-9) > 1e-9 || h.count != 0 {
		t.Errorf("busy for %v s and %d tasks left, want 9 and none", h.busy, h.count)
	}
}

// A process works on what came first, with as many cores as it has lanes.
func TestProcessesTakeWorkInOrder(t *testing.T) {
	var c clock
	h := cores{clock: &c, n: 8}
	p := process{cores: &h, lanes: 2}
	var ends []float64
	for _, d := range []float64{3, 1, 1, 5} { // 0–3 | 0–1, 1–2, 2–7
		p.run(d, 1, func() { ends = append(ends, c.now) })
	}
	p.split(4, 2, func() { ends = append(ends, c.now) }) // halves at 3–5 and 5–7
	c.run()
	if want := []float64{1, 2, 3, 7, 7}; !slices.Equal(ends, want) {
		t.Errorf("got ends %v, want %v", ends, want)
	}
}

// Of messages that wait the one of the earliest layer goes first.
func TestPortsSendEarlyLayersFirst(t *testing.T) {
	var c clock
	p := port{clock: &c, bytesPerSecond: 10}
	var got []string
	for _, layer := range []int{3, 2, 0, 2} {
		p.take(layer, 10, func(begin, end float64) { got = append(got, fmt.Sprint(layer, begin, end)) })
	}
	c.run()
	if want := []string{"3 0 1", "0 1 2", "2 2 3", "2 3 4"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Rounds of small clusters take what one works out by hand: 4000 bytes need 4 s on a link, and 0.5
// s to arrive.
func TestRoundsOfSmallClusters(t *testing.T) {
	for _, test := range []struct {
		name string
		want float64
		edit func(c *cluster)
	}{
		{"one worker, one server: there and back", 2 * (0.5 + 4), func(c *cluster) {}},
		// The second one's gradient is there at 8.5, its value leaves when the first one's
		// is gone, at 12.5, and arrives at 17; the first one has begun the next round at
		// 13, so rounds close every 13 s.
		{"two workers share the server's link", 0.5 + 8 + 4 + 0.5, func(c *cluster) { c.workers = 2 }},
		// Both values come back as their keys went: the second is there at 8.5 and back at 13.
		{"two keys on two servers share the worker's link", 0.5 + 8 + 4 + 0.5, func(c *cluster) {
			c.servers, c.model.layers[0].keys = 2, []int{1000, 1000}
		}},
		{"on one host no link counts, only the cores", 1 + 2 + 3 + 4, func(c *cluster) {
			c.placement, c.link = oneHost, 0
			c.costs.Transports["tcp"] = costs.Transport{PushWorker: costs.Line{Message: 1}, PushServer: costs.Line{Message: 2},
				PullServer: costs.Line{Message: 3}, PullWorker: same(4. / 4000)}
		}},
		{"three workers on one core: two sums of 4 s, an update of 4 s", 3*2 + 2*4 + 4, func(c *cluster) {
			c.workers, c.placement, c.link, c.cores, c.rule = 3, oneHost, 0, 1, "sgd"
			c.costs.Transports["tcp"] = costs.Transport{PushWorker: costs.Line{Message: 2}, FurtherServer: same(0.001)}
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
		wantRound(t, test.name, c, test.want)
	}
}

// wantRound simulates the cluster, whose rounds are to take so many seconds.
func wantRound(t *testing.T, name string, c *cluster, want float64) {
	t.Helper()
	r, err := simulate(c)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if math.Abs(r.round-want) > 1e-9 {
		t.Errorf("%s: got a round of %v s, want %v", name, r.round, want)
	}
}

// What the workers of a host, small keys, codes and the cache change, worked out by hand as well.
func TestRoundsOfHostsWithSeveralWorkers(t *testing.T) {
	for _, test := range []struct {
		name string
		want float64
		edit func(c *cluster)
	}{
		{"four workers of a host push by themselves: four gradients and four values on its link", 2 * (0.5 + 16), func(c *cluster) {}},
		{"keys below 16 KB are never added up within a host", 2 * (0.5 + 16), func(c *cluster) { c.sums = true }},
		{"one sum leaves the host, one value comes", 2 * (0.5 + 20), func(c *cluster) { c.sums, c.model.layers[0].keys = true, []int{5000} }},
		// Each worker gives its gradient to the leader (1 s), which takes four (2 s each)
		// and adds three times (4 s each), and gives the value to four (3 s each), who take
		// it (5 s).
		{"the leader is a server to its host's workers", 2*(0.5+20) + 1 + 4*2 + 3*4 + 4*3 + 5, func(c *cluster) {
			c.sums, c.model.layers[0].keys = true, []int{5000}
			c.costs.Transports["auto"] = costs.Transport{PushWorker: costs.Line{Message: 1}, PushServer: costs.Line{Message: 2}, PullServer: costs.Line{Message: 3},
				PullWorker: costs.Line{Message: 5}, FurtherServer: costs.Line{Message: 4}}
		}},
		// The first takes 2 s, each other 1.5 s less; a worker among four takes three
		// quarters of 2 s less than its 2 s.
		{"further contributions may take less than the first", 2*(0.5+20) + 0.5 + 4*2 - 3*1.5, func(c *cluster) {
			c.sums, c.model.layers[0].keys = true, []int{5000}
			c.costs.Transports["auto"] = costs.Transport{PushWorker: costs.Line{Message: 2}, PushServer: costs.Line{Message: 2},
				FurtherServer: costs.Line{Message: -1.5}, FurtherWorker: costs.Line{Message: -2}}
		}},
		{"workers beside the server push to it by themselves, through memory", 0, func(c *cluster) {
			c.sums, c.model.layers[0].keys, c.placement = true, []int{5000}, shared
		}},
		{"half precision halves a link's bytes, 2bit has a sixteenth of the gradient's", 2*0.5 + 10 + 20, func(c *cluster) {
			c.sums, c.model.layers[0].keys, c.push = true, []int{5000}, "fp16"
		}},
		{"codes with residuals are not added up", 2*0.5 + 4*20./16 + 4*20, func(c *cluster) {
			c.sums, c.model.layers[0].keys, c.push = true, []int{5000}, "2bit"
		}},
		// 4000 + 4000 bytes and the head of the second key.
		{"two small keys are one message", 2*0.5 + 8 + 0.124 + 8 + 0.094, func(c *cluster) {
			c.workers, c.perHost, c.together, c.model.layers = 1, 1, true, []layer{{keys: []int{1000}}, {keys: []int{1000}}}
		}},
		// The working set of 4 workers on the server's host: 8 gradients and outputs, 4
		// contributions and a value, 52000 bytes, of which 13000 fit.
		{"what the cache does not hold costs more", 4 * (0.25*1 + 0.75*2), func(c *cluster) {
			c.placement, c.link, c.cores, c.llc = oneHost, 0, 1, 13000
			c.perHost = 1
			c.costs.Transports["tcp"] = costs.Transport{PushWorker: costs.Line{Byte: 1. / 4000, Far: 2. / 4000}}
		}},
	} {
		c := plain(4, 1)
		c.perHost, c.cores = 4, 4
		test.edit(c)
		wantRound(t, test.name, c, test.want)
	}
}

// ResNet18's arrays of up to 4096 values travel together.
func TestSmallKeysAreOnePartForEachServer(t *testing.T) {
	c := plain(1, 4)
	c.model, c.together = resnet18(false), true
	parts, err := c.parts()
	if err != nil {
		t.Fatal(err)
	}
	keys, bytes, common := 0, 0.0, 0
	for _, layer := range parts {
		for _, p := range layer {
			bytes += p.bytes
			if p.keys > 1 || p.bytes <= smallBytes {
				keys, common = keys+p.keys, common+1
			}
		}
	}
	if keys != 41 || common != 4 || bytes != 4*11_181_642 {
		t.Errorf("got %d small keys in %d messages and %v bytes in all, want 41 in 4 and %d", keys, common, bytes, 4*11_181_642)
	}
}

// Backward goes on while gradients travel, and the next forward pass begins while values of later
// layers are still on their way.
func TestExchangeHidesBehindComputing(t *testing.T) {
	c := plain(1, 1)

	// Each of the two keys takes 1 s each way.
	c.link = 4000
	c.latency = 0
	c.model.layers = []layer{{keys: []int{1000}, forward: 10, backward: 10}, {keys: []int{1000}, forward: 10, backward: 10}}

	// Only the first layer's gradient and value are waited for.
	wantRound(t, "two layers", c, 40+2)
}

// Workers that are simulated as one give nearly the rounds of each by itself.
func TestFoldingChangesLittle(t *testing.T) {
	c := plain(32, 4)
	c.model, c.link, c.latency, c.rounds = resnet18(false).withStep(0.05), 1.25e9, 50e-6, 3
	c.costs.Sum, c.rule = same(5e-11), "sgd"
	c.costs.Update["sgd"] = same(5e-11)
	c.costs.Transports["tcp"] = costs.Transport{PushWorker: costs.Line{Message: 4e-6, Byte: 2e-10, Far: 2e-10}, PushServer: costs.Line{Message: 3e-6, Byte: 1e-10, Far: 1e-10},
		PullWorker: same(2e-10), PullServer: same(2e-10)}
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
	c.Update["sgd"] = same(1e-10)
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
		{"predict --costs " + good + " --rule sgd --push zip", `code "zip"`},
		{"predict --costs " + good + " --rule sgd --pull 2bit", `code "2bit" of values`},
		{"predict --costs " + good + " --workers 10 --per-host 4", "10 workers and 4 of a host"},
		{"predict --costs " + good + " --per-host 7", "--per-host is 7"},
		{"predict --costs " + good + " --threads 3", "--threads is 3"},
	} {
		out, err := scale(t, strings.Fields(test.args)...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("scale %s: got error %v, want one with %q", test.args, err, test.want)
		}
		if out != "" {
			t.Errorf("scale %s: printed %q before its error", test.args, out)
		}
	}
}
