package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/bench/costs"
	"github.com/paragon-train/paragon/bench/internal/machine"
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
