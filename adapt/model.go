package adapt

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Timing is what a job measured with one placement and one local batch: the means of all its
// steps with them.
type Timing struct {
	Nodes, Replicas, LocalBatch int
	// Seconds of an accumulated and of a closing micro-batch. The first is computing alone, the
	// second has the exchange of gradients, too. Accumulation 0: not known.
	Accumulation, Step float64
	// Servers is the number of parameter servers; 0 means Cluster.Servers. AllReduce ignores
	// it.
	Servers int
}

// A Model predicts how long a step takes.
//
// StepTime is the seconds of one optimizer step: so many accumulated micro-batches and a closing
// one, each with a local batch of examples on each of the replicas, which are spread over so many
// nodes.
type Model interface {
	StepTime(nodes, replicas, localBatch, accumulation int) float64
}

// Throughput is the examples a second that a model predicts.
func Throughput(m Model, nodes, replicas, localBatch, accumulation int) float64 {
	examples := float64(replicas) * float64(localBatch) * float64(accumulation+1)
	return examples / m.StepTime(nodes, replicas, localBatch, accumulation)
}

var errNoTimings = errors.New("adapt: fit: no timings")

func (t Timing) validate() error {
	switch {
	case t.Nodes < 1:
		return fmt.Errorf("Nodes is %d, want at least 1", t.Nodes)
	case t.Replicas < t.Nodes:
		return fmt.Errorf("Replicas is %d, want at least one on each of %d nodes", t.Replicas, t.Nodes)
	case t.LocalBatch < 1:
		return fmt.Errorf("LocalBatch is %d, want at least 1", t.LocalBatch)
	case !(t.Step > 0) || !finite(t.Step):
		return fmt.Errorf("Step is %g s, want a positive time", t.Step)
	case !(t.Accumulation >= 0) || !finite(t.Accumulation):
		return fmt.Errorf("Accumulation is %g s, want a time, or 0 where it is not known", t.Accumulation)
	case t.Servers < 0:
		return fmt.Errorf("Servers is %d, want at least 0", t.Servers)
	}
	return nil
}

// distinct checks timings and averages those of the same configuration. The result is sorted, so
// that a fit does not depend on the order in which they came.
func distinct(timings []Timing) ([]Timing, error) {
	if len(timings) == 0 {
		return nil, errNoTimings
	}
	for i, t := range timings {
		if err := t.validate(); err != nil {
			return nil, fmt.Errorf("adapt: fit: timing %d: %w", i, err)
		}
	}
	sorted := slices.Clone(timings)
	slices.SortFunc(sorted, func(a, b Timing) int {
		return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(a.Servers, b.Servers),
			cmp.Compare(a.LocalBatch, b.LocalBatch), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Accumulation, b.Accumulation))
	})
	var out []Timing
	for i := 0; i < len(sorted); {
		mean := sorted[i]
		mean.Step, mean.Accumulation = 0, 0
		j, known := i, 0
		for ; j < len(sorted) && sorted[j].Nodes == mean.Nodes && sorted[j].Replicas == mean.Replicas &&
			sorted[j].Servers == mean.Servers && sorted[j].LocalBatch == mean.LocalBatch; j++ {
			mean.Step += sorted[j].Step
			if sorted[j].Accumulation > 0 {
				mean.Accumulation += sorted[j].Accumulation
				known++
			}
		}
		mean.Step /= float64(j - i)
		mean.Accumulation /= float64(max(known, 1))
		out = append(out, mean)
		i = j
	}
	return out, nil
}
