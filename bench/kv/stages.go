package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/bench/costs"
	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/optim"
)

// A stageSet is the keys of a work that measures moving: small messages, large ones of two sizes in
// the cache, and ones beyond it.
type stageSet struct {
	name string
	// keys is how many there are, bytes how large each is.
	keys, bytes int
	passes      int
}

var stageSets = [4]stageSet{{"small", 64, 1 << 10, 60}, {"large", 6, 512 << 10, 40}, {"larger", 1, 4 << 20, 30}, {"far", 11, 4 << 20, 3}}

// stageJobs are the jobs that play them: the second has one contribution more.
var stageJobs = [2]size{{1, 1, false}, {2, 1, false}}

// stageWorks are the works that measure moving: pushes alone, and with the value in the answer.
// Their names match no pattern of -work.
func stageWorks() []work {
	var out []work
	for _, pull := range []bool{false, true} {
		verb := "push"
		if pull {
			verb = "pushpull"
		}
		for _, set := range stageSets {
			out = append(out, work{name: fmt.Sprintf("stage/%s/%s", verb, set.name), keys: same(set.keys, set.bytes/4), samples: 20, passes: set.passes, pull: pull})
		}
	}
	return out
}

// measureStages writes what each stage costs to the file.
func measureStages(ctx context.Context, set settings, out io.Writer) error {
	here := machine.Here()
	c := &costs.Costs{Machine: here.String(), Cores: here.Cores, LLC: float64(here.LLC), Commit: machine.Commit(),
		Command: strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " "), Transports: map[string]costs.Transport{}}
	spell := time.Duration(float64(100*time.Millisecond) * min(set.scale, 1))
	stageArithmetic(c, spell)
	for _, name := range set.transports {
		if ways[name].hosts {
			// Its connections are those of tcp and auto.
			continue
		}
		t, err := stageTransport(ctx, set, name, c)
		if err != nil {
			return fmt.Errorf("stages over %s: %w", name, err)
		}
		c.Transports[name] = t
	}
	if err := c.Write(set.stages); err != nil {
		return err
	}
	writeStages(out, c)
	return nil
}

// stageTransport measures the CPU time of workers and a server for messages of several sizes, in
// the cache and beyond it. A worker alone has no sum, and without an optimizer the contribution's
// memory becomes the value: its time is that of moving the bytes. The time of two workers beyond
// twice that is the cost of adding a contribution.
func stageTransport(ctx context.Context, set settings, name string, c *costs.Costs) (costs.Transport, error) {
	r := newReport(io.Discard)
	works := stageWorks()
	for range set.count {
		for _, sz := range stageJobs {
			j := job{size: sz, transport: name, scale: set.scale}
			for _, w := range works {
				j.works = append(j.works, w.name)
			}
			if done, err := j.run(ctx, time.Duration(max(1, set.scale)*float64(set.limit)), r); err != nil {
				return costs.Transport{}, fmt.Errorf("%d workers, work %d of %d: %w", sz.workers, done+1, len(works), err)
			}
		}
	}
	type points [len(stageSets)]costs.Point
	// worker and server have points by job, verb and set, for one operation of a worker.
	var worker, server [len(stageJobs)][2]points
	for i, sz := range stageJobs {
		for k, w := range works {
			m := r.all[(&measured{job: sz, transport: name, work: w}).name()]
			ops, at := float64(m.samples*m.work.operations()*sz.workers), k%len(stageSets)
			bytes := float64(stageSets[at].bytes)
			worker[i][k/len(stageSets)][at] = costs.Point{Bytes: bytes, Cost: m.workerCPU.Seconds() / ops}
			server[i][k/len(stageSets)][at] = costs.Point{Bytes: bytes, Cost: (m.cpu - m.workerCPU).Seconds() / ops}
		}
	}
	far := stageSets[3]
	// The memory holds gradients, values, and the workers' copies of them.
	share := max(0.5, costs.Far(3*float64(far.keys*far.bytes), c.LLC))
	line := func(p points) costs.Line { return costs.Fit(p[0], p[1], p[2], p[3], share) }
	flat := func(p points) costs.Line {
		each := costs.Round(p[3].Cost / p[3].Bytes)
		return costs.Line{Message: costs.Round(p[0].Cost - each*p[0].Bytes), Byte: each, Far: each}
	}
	more := func(a, b points, times float64) points {
		for i := range a {
			a[i].Cost = times * (a[i].Cost - b[i].Cost)
		}
		return a
	}
	least := func(a, b points) points {
		// A push whose value is asked for may have a shorter way than one that is acknowledged.
		for i := range a {
			a[i].Cost = min(a[i].Cost, b[i].Cost)
		}
		return a
	}
	const push, pushPull = 0, 1
	toServer, onServer := least(worker[0][push], worker[0][pushPull]), least(server[0][push], server[0][pushPull])
	return costs.Transport{
		PushWorker: line(toServer).Rising(), PushServer: line(onServer).Rising(),
		PullWorker: line(more(worker[0][pushPull], toServer, 1)).Rising(), PullServer: line(more(server[0][pushPull], onServer, 1)).Rising(),
		// Two operations have one further contribution. A difference of differences says
		// nothing of what the cache does: all bytes cost what the far ones do.
		FurtherWorker: flat(more(worker[1][pushPull], worker[0][pushPull], 2)), FurtherServer: flat(more(server[1][pushPull], server[0][pushPull], 2)),
	}, nil
}

// stageArithmetic measures copies, sums, updates and codes on shards that are in the cache, and on
// ones that are not: the least time of many spells of each.
func stageArithmetic(c *costs.Costs, spell time.Duration) {
	// There are 64 MB of each kind; two shards fit a cache.
	const shards, values = 64, 256 << 10
	r := rand.New(rand.NewPCG(1, 1))
	arrays := func() [][]float32 {
		// All values are alike, since drawing takes longer than what is measured.
		out := make([][]float32, shards)
		for i := range out {
			out[i] = make([]float32, values)
			if i > 0 {
				copy(out[i], out[0])
				continue
			}
			for j := range out[i] {
				out[i][j] = float32(r.NormFloat64())
			}
		}
		return out
	}
	a, b := arrays(), arrays()
	least := func(shards int, f func(i int)) float64 {
		for i := range shards {
			// This touches the memory.
			f(i)
		}
		best := time.Duration(1 << 62)
		for begun, i := time.Now(), 0; i < 2*shards || time.Since(begun) < spell; i++ {
			start := time.Now()
			f(i % shards)
			best = min(best, time.Since(start))
		}
		return costs.Round(best.Seconds() / (4 * values))
	}
	perByte := func(f func(i int)) costs.Line {
		near := least(2, f)
		return costs.Line{Byte: near, Far: max(near, least(shards, f))}
	}
	c.Copy = perByte(func(i int) { copy(a[i], b[i]) })
	c.Sum = perByte(func(i int) { f32.AddTo(a[i], b[i]) })
	c.Update, c.Encode, c.Decode = map[string]costs.Line{"none": {}}, map[string]costs.Line{"none": {}}, map[string]costs.Line{"none": c.Sum}
	for _, cfg := range []optim.Config{{Name: "sgd", LearningRate: 1e-4}, {Name: "sgd", LearningRate: 1e-4, Momentum: 0.9}, {Name: "adagrad", LearningRate: 1e-4}, {Name: "adam", LearningRate: 1e-4}} {
		o, err := optim.New(cfg)
		if err != nil {
			// The config is written here.
			panic(err)
		}
		states := make([]*optim.State, shards)
		for i := range states {
			states[i] = o.NewState(values)
		}
		name := cfg.Name
		if cfg.Momentum > 0 {
			name += "+momentum"
		}
		c.Update[name] = perByte(func(i int) {
			if err := o.At(1, 1, optim.Factors{LearningRate: 1, WeightDecay: 1}).Update(a[i], b[i], states[i]); err != nil {
				// The lengths do not fit.
				panic(err)
			}
		})
	}
	halves, code := make([]uint16, values), make([]byte, 4*values)
	c.Encode["fp16"] = perByte(func(i int) { f32.ToFloat16(halves, b[i]) })
	c.Encode["bf16"] = perByte(func(i int) { f32.ToBFloat16(halves, b[i]) })
	two, one := code[:f32.Code2BitLen(values)], code[:f32.Code1BitLen(values)]
	c.Encode["2bit"] = perByte(func(i int) { f32.Encode2Bit(two, a[i], b[i], 0.5) })
	c.Decode["2bit"] = perByte(func(i int) { f32.AddDecoded2Bit(a[i], two, 0.5) })
	c.Encode["1bit"] = perByte(func(i int) { f32.Encode1Bit(one, a[i], b[i], 0.5) })
	c.Decode["1bit"] = perByte(func(i int) { f32.AddDecoded1Bit(a[i], one) })
	part := make([]float32, 1024)
	half := func(from func(dst []float32, x []uint16)) func(i int) {
		return func(i int) {
			for lo := 0; lo < values; lo += len(part) {
				from(part, halves[lo:lo+len(part)])
				f32.AddTo(a[i][lo:lo+len(part)], part)
			}
		}
	}
	c.Decode["fp16"], c.Decode["bf16"] = perByte(half(f32.FromFloat16)), perByte(half(f32.FromBFloat16))
}

// writeStages writes a line for each stage, as Go's benchmarks do.
func writeStages(out io.Writer, c *costs.Costs) {
	line := func(stage string, l costs.Line) {
		fmt.Fprintf(out, "BenchmarkStage/stage=%s 1 %.0f ns/message %.0f ns/large-message %.1f ns/KB %.1f far-ns/KB\n", stage, 1e9*l.Message, 1e9*l.Large, 1e9*1024*l.Byte, 1e9*1024*l.Far)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		t := c.Transports[name]
		line("wire/side=worker/way=push/transport="+name, t.PushWorker)
		line("wire/side=server/way=push/transport="+name, t.PushServer)
		line("wire/side=worker/way=pull/transport="+name, t.PullWorker)
		line("wire/side=server/way=pull/transport="+name, t.PullServer)
		line("wire/side=worker/way=further/transport="+name, t.FurtherWorker)
		line("wire/side=server/way=further/transport="+name, t.FurtherServer)
	}
	line("copy", c.Copy)
	line("sum", c.Sum)
	for _, kind := range []struct {
		stage string
		m     map[string]costs.Line
	}{{"update/rule", c.Update}, {"serialise/code", c.Encode}, {"sum/code", c.Decode}} {
		var names []string
		for name := range kind.m {
			if name != "none" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			line(kind.stage+"="+name, kind.m[name])
		}
	}
}
