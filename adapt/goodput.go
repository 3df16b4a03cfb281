package adapt

import (
	"errors"
	"fmt"
)

// Goodput is the rate at which a job makes progress: its throughput times the efficiency of its
// global batch, in examples a second at the initial batch size (arXiv 2008.12260, definition 3.1).
type Goodput struct {
	Model Model
	Noise Noise
	// InitialBatch is M0, the global batch for which the learning rate was chosen.
	InitialBatch int
}

// At is the goodput of one configuration: local batches of so many examples on so many replicas
// over nodes, with accumulation batches summed before the closing one. It is 0 where a number is
// below what it can be or where the model gives no positive time.
func (g Goodput) At(nodes, replicas, localBatch, accumulation int) float64 {
	if g.Model == nil || g.InitialBatch < 1 || nodes < 1 || replicas < nodes || localBatch < 1 || accumulation < 0 {
		return 0
	}
	return g.rate(replicas, localBatch, accumulation, g.Model.StepTime(nodes, replicas, localBatch, accumulation))
}

// rate is the goodput of a step that takes so many seconds.
func (g Goodput) rate(replicas, localBatch, accumulation int, seconds float64) float64 {
	batch := float64(replicas) * float64(localBatch) * float64(accumulation+1)
	rate := batch / seconds * g.Noise.Efficiency(batch/float64(g.InitialBatch))
	if !(seconds > 0) || !finite(rate) {
		return 0
	}
	return rate
}

// Limits bound what Best may choose.
type Limits struct {
	// MaxBatch is the largest global batch. 0: the batch stays at the initial one, rounded up
	// to a multiple of the replicas and of the micro-batches that MaxLocal makes necessary.
	MaxBatch int
	// MinLocal is the smallest local batch; 0 is 1.
	MinLocal int
	// MaxLocal is the largest local batch, for which a replica has the memory. 0: there is no
	// bound but MaxBatch.
	MaxLocal int
	// Accumulation allows to sum several local batches before a push.
	Accumulation bool
	// MaxServers lets Best choose among 1 to so many servers, for a model with WithServers; 0:
	// the servers are the model's.
	MaxServers int
}

// Validate is an error where no number of replicas could have these limits with this initial batch.
func (l Limits) Validate(initialBatch int) error {
	switch {
	case initialBatch < 1:
		return fmt.Errorf("adapt: initial batch is %d, want at least 1", initialBatch)
	case l.MaxBatch < 0:
		return fmt.Errorf("adapt: limits: MaxBatch is %d, want at least the initial batch of %d, or 0 to stay there", l.MaxBatch, initialBatch)
	case l.MaxBatch > 0 && l.MaxBatch < initialBatch:
		return fmt.Errorf("adapt: limits: MaxBatch is %d, below the initial batch of %d; want at least that, or 0 to stay there", l.MaxBatch, initialBatch)
	case l.MinLocal < 0:
		return fmt.Errorf("adapt: limits: MinLocal is %d, want at least 0", l.MinLocal)
	case l.MaxLocal < 0:
		return fmt.Errorf("adapt: limits: MaxLocal is %d, want at least 0", l.MaxLocal)
	case l.MinLocal > initialBatch:
		return fmt.Errorf("adapt: limits: MinLocal is %d, which excludes the initial batch of %d", l.MinLocal, initialBatch)
	case l.MaxLocal > 0 && l.MaxLocal < l.MinLocal:
		return fmt.Errorf("adapt: limits: MaxLocal is %d, below MinLocal of %d", l.MaxLocal, l.MinLocal)
	case l.MaxServers < 0:
		return fmt.Errorf("adapt: limits: MaxServers is %d, want at least 0", l.MaxServers)
	}
	return nil
}

// A Choice is the best configuration for a placement.
type Choice struct {
	LocalBatch, Accumulation int
	Goodput                  float64
	Servers                  int // 0 without Limits.MaxServers
}

// ErrNoChoice answers errors.Is where limits leave no configuration to a number of replicas, though
// they may to another.
var ErrNoChoice = errors.New("no batch size is possible within the limits")

type noChoiceError struct {
	replicas, initial int
	limits            Limits
}

func (e *noChoiceError) Error() string {
	l := e.limits
	return fmt.Sprintf("adapt: best goodput of %d replicas: %v: initial batch %d, MaxBatch %d, MinLocal %d, MaxLocal %d, accumulation %t",
		e.replicas, ErrNoChoice, e.initial, l.MaxBatch, l.MinLocal, l.MaxLocal, l.Accumulation)
}

func (e *noChoiceError) Is(target error) bool { return target == ErrNoChoice }

// Best is the local batch m and the number s of accumulated batches with the highest goodput on
// replicas over nodes, out of all whole numbers for which the global batch replicas·m·(s+1) is at
// least the initial batch and at most Limits.MaxBatch. A single replica goes beyond the initial
// batch only with s ≥ 1, since the noise of one micro-gradient a step can only be estimated with a
// bias.
//
// With Limits.MaxServers the number of servers is the least with which the goodput is within 1 % of
// that with MaxServers, since a server takes a machine's time and memory that the model does not
// know. The model must not get slower with more servers.
//
// Best takes about a microsecond for AllReduce and ParameterServer, whose goodput has one maximum
// over m; other models are asked for every (m, s).
func (g Goodput) Best(nodes, replicas int, l Limits) (Choice, error) {
	switch {
	case g.Model == nil:
		return Choice{}, errors.New("adapt: best goodput: Model is nil")
	case nodes < 1:
		return Choice{}, fmt.Errorf("adapt: best goodput: %d nodes, want at least 1", nodes)
	case replicas < 1:
		return Choice{}, fmt.Errorf("adapt: best goodput: %d replicas, want at least 1", replicas)
	case replicas < nodes:
		return Choice{}, fmt.Errorf("adapt: best goodput: %d replicas, want at least one on each of %d nodes", replicas, nodes)
	}
	if err := l.Validate(g.InitialBatch); err != nil {
		return Choice{}, err
	}
	r := l.ranges(g.InitialBatch, replicas)
	best := Choice{}
	if l.MaxServers == 0 {
		best = g.best(nodes, replicas, r)
	} else {
		m, ok := g.Model.(serverModel)
		if !ok {
			return Choice{}, fmt.Errorf("adapt: best goodput: Limits.MaxServers is %d, but model %T has no WithServers", l.MaxServers, g.Model)
		}
		best = g.bestServers(m, nodes, replicas, l.MaxServers, r)
	}
	if best.Goodput == 0 {
		return Choice{}, &noChoiceError{replicas, g.InitialBatch, l}
	}
	return best, nil
}

// serverModel is what Limits.MaxServers needs: the model of the same job with another number of
// servers.
type serverModel interface {
	Model
	WithServers(servers int) Model
}

// enough is the part of the best goodput that fewer servers must have.
const enough = 0.99

// bestServers finds the least number of servers that is enough, by bisection.
func (g Goodput) bestServers(m serverModel, nodes, replicas, most int, r ranges) Choice {
	with := func(servers int) Choice {
		g.Model = m.WithServers(servers)
		c := g.best(nodes, replicas, r)
		c.Servers = servers
		return c
	}
	best := with(most)
	want := enough * best.Goodput
	for low, high := 1, most; low < high; {
		mid := low + (high-low)/2
		if c := with(mid); c.Goodput >= want {
			best, high = c, mid
		} else {
			low = mid + 1
		}
	}
	return best
}

// best is the best configuration; its Goodput is 0 where there is none.
func (g Goodput) best(nodes, replicas int, r ranges) Choice {
	if r.least > r.most {
		return Choice{}
	}
	if m, ok := g.Model.(interface {
		costs(nodes, replicas int) stepCosts
	}); ok {
		return g.search(replicas, m.costs(nodes, replicas), r)
	}
	return g.enumerate(nodes, replicas, r)
}

// ranges are Limits for one number of replicas. The examples of a step on one replica are the
// product of the local batch and the number of micro-batches.
type ranges struct {
	// least and most bound the examples of a step on one replica, low and high the local batch.
	least, most int
	low, high   int
	// accumulation allows more than one micro-batch.
	accumulation bool
	// single says that there is one replica: it has more than least only with accumulation.
	single bool
}

func (l Limits) ranges(initial, replicas int) ranges {
	r := ranges{low: max(l.MinLocal, 1), accumulation: l.Accumulation, single: replicas == 1}
	r.least = (initial-1)/replicas + 1
	if l.MaxBatch > 0 {
		r.most = l.MaxBatch / replicas
		r.high = r.most
	}
	if l.MaxLocal > 0 && (l.MaxBatch == 0 || l.MaxLocal < r.high) {
		r.high = l.MaxLocal
	}
	if l.MaxBatch == 0 {
		r.most = max(r.least, r.low)
		if l.MaxLocal == 0 {
			r.high = r.most
		}
		// A step has as few micro-batches as there can be.
		if r.most > r.high {
			parts := (r.most-1)/r.high + 1
			r.most = parts * ((r.most-1)/parts + 1)
		}
	}
	if !r.accumulation {
		r.most = min(r.most, r.high)
	}
	return r
}

// Allows reports whether Best may choose a batch on so many replicas: a local batch of so many
// examples, with accumulation batches summed before the closing one.
func (l Limits) Allows(initialBatch, replicas, localBatch, accumulation int) bool {
	if l.Validate(initialBatch) != nil || replicas < 1 || accumulation < 0 {
		return false
	}
	r := l.ranges(initialBatch, replicas)
	if r.least > r.most || accumulation > r.last() {
		return false
	}
	low, high := r.batches(accumulation)
	return low <= localBatch && localBatch <= high
}

// Nearest is the batch that Allows allows whose examples on a replica are the nearest to so many,
// with the fewest accumulated batches; false: it allows none.
func (l Limits) Nearest(initialBatch, replicas, examples int) (localBatch, accumulation int, ok bool) {
	if l.Validate(initialBatch) != nil || replicas < 1 {
		return 0, 0, false
	}
	r, best := l.ranges(initialBatch, replicas), 0
	if r.least > r.most {
		return 0, 0, false
	}
	for s := r.first(); s <= r.last(); s++ {
		low, high := r.batches(s)
		for m := examples / (s + 1); m <= examples/(s+1)+1 && low <= high; m++ {
			to := min(max(m, low), high)
			if off := max(to*(s+1)-examples, examples-to*(s+1)); !ok || off < best {
				localBatch, accumulation, best, ok = to, s, off, true
			}
		}
		if ok && best == 0 {
			break
		}
	}
	return localBatch, accumulation, ok
}

// batches are the local batches that are possible with s accumulated ones.
func (r ranges) batches(s int) (low, high int) {
	low, high = max(r.low, (r.least-1)/(s+1)+1), min(r.high, r.most/(s+1))
	if r.single && s == 0 {
		// Without accumulation there is the initial batch alone.
		low, high = max(low, r.least), min(high, r.least)
	}
	return low, high
}

// first is the smallest number of accumulated batches with which the largest local batch is enough.
func (r ranges) first() int { return (r.least - 1) / r.high }

// last is the largest number of accumulated batches.
func (r ranges) last() int {
	if !r.accumulation {
		return 0
	}
	return r.most/r.low - 1
}

// enumerate asks the model for every configuration.
func (g Goodput) enumerate(nodes, replicas int, r ranges) (best Choice) {
	for s := r.first(); s <= r.last(); s++ {
		low, high := r.batches(s)
		for m := low; m <= high; m++ {
			if rate := g.rate(replicas, m, s, g.Model.StepTime(nodes, replicas, m, s)); rate > best.Goodput {
				best = Choice{LocalBatch: m, Accumulation: s, Goodput: rate}
			}
		}
	}
	return best
}
