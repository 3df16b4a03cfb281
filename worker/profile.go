package worker

import (
	"time"

	"github.com/paragon-train/paragon/adapt"
)

// A profile is what rank 0 has measured of the time of steps, by placement and size of a run.
// Computing is that of the runs before the last one of their steps.
type profile struct {
	adapt.Profile
	// skip are steps to leave out: the first ones after a change are slower.
	skip int
}

// leftOut is how many steps after a change are not measured: what they wait for has happened once.
const leftOut = 2

// changed says that the next steps are not like those before.
func (p *profile) changed() { p.skip = leftOut }

// add takes the times of one step: of its runs before the last one, and the rest, of which it is
// not known how much was computing. A time of 0, of a clock that stands, says nothing.
func (p *profile) add(nodes, replicas, local int, runs []time.Duration, rest time.Duration) {
	if p.skip > 0 {
		p.skip--
		return
	}
	t := adapt.Timing{Nodes: nodes, Replicas: replicas, LocalBatch: local}
	for _, d := range runs {
		p.Accumulated(t, d.Seconds())
	}
	p.Closed(t, rest.Seconds(), rest.Seconds())
}

// find has the sums of a placement and size.
func (p *profile) find(nodes, replicas, local int) adapt.ProfileEntry {
	e, _ := p.Entry(adapt.Timing{Nodes: nodes, Replicas: replicas, LocalBatch: local})
	return e
}
