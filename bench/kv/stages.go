package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/bench/costs"
	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/optim"
)

// stageSizes are the bytes of the keys from whose costs a line is made.
var stageSizes = [2]int{1 << 10, 1 << 20}

// stageWorks are the works that measure moving: pushes alone, and with the value in the answer. Their names match no pattern of -work.
func stageWorks() []work {
	var out []work
	for _, pull := range []bool{false, true} {
		verb := "push"
		if pull {
			verb = "pushpull"
		}
		out = append(out,
			work{name: fmt.Sprintf("stage/%s/bytes=%d", verb, stageSizes[0]), keys: same(64, stageSizes[0]/4), samples: 20, passes: 60, pull: pull},
			work{name: fmt.Sprintf("stage/%s/bytes=%d", verb, stageSizes[1]), keys: same(40, stageSizes[1]/4), samples: 20, passes: 2, pull: pull})
	}
	return out
}

// measureStages writes what each stage costs to the file.
func measureStages(ctx context.Context, set settings, out io.Writer) error {
	c := &costs.Costs{Machine: fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH), Cores: runtime.NumCPU(), Commit: commit(),
		Command: strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " "), Transports: map[string]costs.Transport{}}
	spell := time.Duration(float64(100*time.Millisecond) * min(set.scale, 1))
	stageArithmetic(c, spell)
	for _, name := range set.transports {
		t, err := stageTransport(ctx, set, name)
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

// stageTransport measures the CPU time of a worker's and a server's process for messages of two sizes. A worker alone has no sum, and
// without an optimizer the contribution's memory becomes the value: what is left is moving.
func stageTransport(ctx context.Context, set settings, name string) (costs.Transport, error) {
	r := newReport(io.Discard)
	for range set.count {
		j := job{size: size{1, 1, false}, transport: name, scale: set.scale}
		for _, w := range stageWorks() {
			j.works = append(j.works, w.name)
		}
		if done, err := j.run(ctx, time.Duration(max(1, set.scale)*float64(set.limit)), r); err != nil {
			return costs.Transport{}, fmt.Errorf("work %d of %d: %w", done+1, len(j.works), err)
		}
	}
	var worker, server [2][2]float64 // by verb and size, for one operation
	for i, w := range stageWorks() {
		m := r.all[(&measured{job: size{1, 1, false}, transport: name, work: w}).name()]
		ops := float64(m.samples * w.operations())
		worker[i/2][i%2] = m.workerCPU.Seconds() / ops
		server[i/2][i%2] = (m.cpu - m.workerCPU).Seconds() / ops
	}
	line := func(c [2]float64) costs.Line {
		return costs.Fit(float64(stageSizes[0]), c[0], float64(stageSizes[1]), c[1])
	}
	more := func(c [2][2]float64) [2]float64 { return [2]float64{c[1][0] - c[0][0], c[1][1] - c[0][1]} }
	return costs.Transport{PushWorker: line(worker[0]), PushServer: line(server[0]), PullWorker: line(more(worker)), PullServer: line(more(server))}, nil
}

// stageArithmetic measures sums, updates and codes on shards that lie in memory, not in a cache: the least time of many spells.
func stageArithmetic(c *costs.Costs, spell time.Duration) {
	const shards, values = 32, 256 << 10 // 32 MB of each kind
	r := rand.New(rand.NewPCG(1, 1))
	arrays := func() [][]float32 { // all alike: drawing takes longer than what is measured
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
	perByte := func(f func(i int)) float64 {
		for i := range shards { // touches the memory
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
	c.Sum = perByte(func(i int) { f32.AddTo(a[i], b[i]) })
	c.Update, c.Encode, c.Decode = map[string]float64{"none": 0}, map[string]float64{"none": 0}, map[string]float64{"none": c.Sum}
	for _, cfg := range []optim.Config{{Name: "sgd", LearningRate: 1e-4}, {Name: "sgd", LearningRate: 1e-4, Momentum: 0.9}, {Name: "adagrad", LearningRate: 1e-4}, {Name: "adam", LearningRate: 1e-4}} {
		o, err := optim.New(cfg)
		if err != nil {
			panic(err) // a config written here
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
				panic(err) // lengths that do not fit
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
		fmt.Fprintf(out, "BenchmarkStage/stage=%s 1 %.0f ns/message %.1f ns/KB", stage, 1e9*l.Message, 1e9*1024*l.Byte)
		if l.Byte > 0 {
			fmt.Fprintf(out, " %.2f GB/s", 1e-9/l.Byte)
		}
		fmt.Fprintln(out)
	}
	for _, name := range transportNames {
		if t, ok := c.Transports[name]; ok {
			line("wire/side=worker/way=push/transport="+name, t.PushWorker)
			line("wire/side=server/way=push/transport="+name, t.PushServer)
			line("wire/side=worker/way=pull/transport="+name, t.PullWorker)
			line("wire/side=server/way=pull/transport="+name, t.PullServer)
		}
	}
	line("sum", costs.Line{Byte: c.Sum})
	for _, kind := range []struct {
		stage string
		m     map[string]float64
	}{{"update/rule", c.Update}, {"serialise/code", c.Encode}, {"sum/code", c.Decode}} {
		var names []string
		for name := range kind.m {
			if name != "none" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			line(kind.stage+"="+name, costs.Line{Byte: kind.m[name]})
		}
	}
}

// commit is what the program was built from, as far as the build tells.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return "unknown"
}
