package worker

import (
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/adapt"
)

// A profile is what rank 0 has measured of the time of steps: the sums, for each placement and size of a run.
type profile struct {
	entries []profileEntry
	skip    int // steps to leave out: the first ones after a change are slower
}

type profileEntry struct {
	Nodes      int     `json:"nodes"`
	Replicas   int     `json:"replicas"`
	LocalBatch int     `json:"local_batch"` // examples of a run
	Runs       int     `json:"runs"`        // before the last ones of their steps
	RunSeconds float64 `json:"run_seconds"` // of all of them
	Steps      int     `json:"steps"`
	Seconds    float64 `json:"seconds"` // of the steps' last runs
}

func (e *profileEntry) check() error {
	finite := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	if e.Nodes < 1 || e.Replicas < e.Nodes || e.LocalBatch < 1 || e.Runs < 0 || e.Steps < 1 || !finite(e.RunSeconds) || !finite(e.Seconds) {
		return fmt.Errorf("a measured time is %+v, want counts above 0 and times of at least 0", *e)
	}
	return nil
}

// leftOut is how many steps after a change are not measured: what they wait for has happened once.
const leftOut = 2

// mostSteps is how many steps an entry averages at most. It is even.
const mostSteps = 256

// changed says that the next steps are not like those before.
func (p *profile) changed() { p.skip = leftOut }

// add takes the times of one step: of its runs before the last one, and the rest.
func (p *profile) add(nodes, replicas, local int, runs []time.Duration, rest time.Duration) {
	if p.skip > 0 {
		p.skip--
		return
	}
	e := p.find(nodes, replicas, local)
	if e == nil {
		p.entries = append(p.entries, profileEntry{Nodes: nodes, Replicas: replicas, LocalBatch: local})
		e = &p.entries[len(p.entries)-1]
	}
	if e.Steps >= mostSteps { // older steps count less and less: machines get slower and faster
		e.Steps, e.Seconds, e.Runs, e.RunSeconds = e.Steps/2, e.Seconds/2, e.Runs/2, e.RunSeconds/2
	}
	for _, d := range runs {
		e.Runs++
		e.RunSeconds += d.Seconds()
	}
	e.Steps++
	e.Seconds += rest.Seconds()
}

// find is the entry of a placement and size; nil: there is none.
func (p *profile) find(nodes, replicas, local int) *profileEntry {
	for i := range p.entries {
		if e := &p.entries[i]; e.Nodes == nodes && e.Replicas == replicas && e.LocalBatch == local {
			return e
		}
	}
	return nil
}

// mostReplicas is the largest number of workers that was measured.
func (p *profile) mostReplicas() (most int) {
	for _, e := range p.entries {
		most = max(most, e.Replicas)
	}
	return most
}

// timings are the means. A step without time, of a clock that stands, says nothing.
func (p *profile) timings() (list []adapt.Timing) {
	for _, e := range p.entries {
		t := adapt.Timing{Nodes: e.Nodes, Replicas: e.Replicas, LocalBatch: e.LocalBatch, Step: e.Seconds / float64(e.Steps)}
		if e.Runs > 0 {
			t.Accumulation = e.RunSeconds / float64(e.Runs)
		}
		if t.Step > 0 {
			list = append(list, t)
		}
	}
	return list
}
