package worker

import (
	"math"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// normEvery: of one step in so many the servers take the norm of the mean gradient, for people to
// look at. It costs them up to 5 % of a round, and so at most 0.1 % of a step of which rounds are a
// third.
const normEvery = 16

// A normReader tells what the servers measured of a key's newest round. A kvstore.Store is one.
type normReader interface {
	Norms(key string) (kvstore.Norms, bool)
	MeasuresNorms() bool
	NumWorkers() int
}

// A gradientNorm is the norm of the mean gradient over all workers, as the servers measure it in
// some steps.
//
// A step is measured with its pushes, and read when the next step is weighed: by then all its
// exchanges have returned. Norms of all keys are of one round or none is taken.
type gradientNorm struct {
	keys []string
	// cheap says that the servers can measure at next to no cost.
	cheap bool
	phase normPhase
	// clips says that the servers clip by the norm, so that it is known of every step. global is
	// then that of the newest step, set before its exchange is over.
	clips  bool
	global float64
	// value is that of the newest step that was read. NaN: it was told already, or there is
	// none.
	value float64
}

// A normPhase says what the servers do for the step under way.
type normPhase uint8

const (
	notMeasured normPhase = iota
	measured
)

func newGradientNorm(keys []string, cheap bool) gradientNorm {
	return gradientNorm{keys: keys, cheap: cheap, global: math.NaN(), value: math.NaN()}
}

// normIsCheap reports whether the servers can take the norm at next to no cost. Adam's family would
// need another norm, of preconditioned gradients, at a larger cost.
func normIsCheap(optimizer optim.Config) bool {
	o, err := optim.New(optimizer)
	return err == nil && !o.HasSecondMoment()
}

// due reports whether a step is to be measured. All workers have the same number of steps. With one
// worker the servers would have to compare rounds. The store is asked last, and only in the steps
// that may be measured: it may measure no norms since compression was set.
func (n *gradientNorm) due(step uint64, store normReader) bool {
	return n.cheap && !n.clips && step%normEvery == 0 && store.NumWorkers() >= 2 && store.MeasuresNorms()
}

// read takes what the servers have measured of the step before, whose exchanges have all returned.
// It takes nothing where the keys' norms are not of the same gradients: a worker was lost between
// its pushes of two keys, or the guard has refused some.
func (n *gradientNorm) read(store normReader) {
	if n.clips {
		n.value, n.global = n.global, math.NaN()
		return
	}
	if n.phase != measured {
		return
	}
	n.phase = notMeasured
	sum, count := 0.0, 0
	for i, key := range n.keys {
		norms, ok := store.Norms(key)
		if i == 0 {
			count = norms.Count
		}
		if !ok || norms.Count != count || norms.Biased {
			return
		}
		sum += norms.SqrMean
	}
	n.value = math.Sqrt(sum)
}

// tell returns the newest norm once.
func (n *gradientNorm) tell() float64 {
	value := n.value
	n.value = math.NaN()
	return value
}
