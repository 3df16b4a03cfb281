package main

import (
	"errors"
	"math"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/bench/pollux/internal/trace"
)

// A measured profile has the step times of the configurations that its job has run in, and the
// noise of its gradient. The throughput model is fitted anew for each new configuration.
type measured struct {
	app     *trace.Application
	timings []adapt.Timing
	seen    map[[3]int]bool

	// most is the largest number of replicas in any configuration.
	most int

	adapt.Goodput
	limits adapt.Limits

	// memo has the goodput by nodes and replicas, for this fit and noise.
	memo map[[2]int]float64
}

func newMeasured(app *trace.Application) *measured {
	return &measured{app: app, seen: map[[3]int]bool{}, Goodput: adapt.Goodput{InitialBatch: app.InitialBatch}, memo: map[[2]int]float64{},
		limits: adapt.Limits{MaxBatch: app.MaxBatch, MinLocal: app.MinLocalBatch, MaxLocal: app.MaxLocalBatch, Accumulation: true}}
}

// observe adds what a step has measured. The model is fitted anew for a configuration that was not
// seen before; another noise makes all remembered goodputs void.
func (m *measured) observe(nodes, replicas, localBatch int, t trace.Times, sqr, variance float64) error {
	if n := (adapt.Noise{Sqr: sqr, Var: variance}); n != m.Noise {
		m.Noise = n
		clear(m.memo)
	}
	key := [3]int{nodes, replicas, localBatch}
	if m.seen[key] {
		return nil
	}
	m.seen[key] = true
	m.most = max(m.most, replicas)
	m.timings = append(m.timings, adapt.Timing{Nodes: nodes, Replicas: replicas, LocalBatch: localBatch, Accumulation: t.Step - t.Sync, Step: t.Step})
	fit, err := adapt.FitAllReduce(m.timings)
	if err != nil {
		return err
	}
	m.Model = fit
	clear(m.memo)
	return nil
}

// best is the batch of most goodput. ok is false before there is a model, and where no batch is
// possible.
func (m *measured) best(nodes, replicas int) (localBatch, accumulation int, ok bool, err error) {
	if m.Model == nil {
		return 0, 0, false, nil
	}
	c, err := m.Best(nodes, replicas, m.limits)
	return c.LocalBatch, c.Accumulation, err == nil, err
}

// corrected is goodput by what was measured with as many replicas: the model is off by about as
// much for other batches there.
func (m *measured) corrected(nodes, replicas int) float64 {
	g := m.goodput(nodes, replicas)
	sum, n := 0.0, 0
	for _, t := range m.timings {
		if t.Replicas == replicas && (t.Nodes > 1) == (nodes > 1) {
			sum += math.Log(t.Step / m.Model.StepTime(t.Nodes, t.Replicas, t.LocalBatch, 0))
			n++
		}
	}
	if n > 0 {
		g /= math.Exp(sum / float64(n))
	}
	return g
}

// goodput is that of the best batch; 0 where no batch is possible.
func (m *measured) goodput(nodes, replicas int) float64 {
	// To the model several nodes are the same as two.
	key := [2]int{min(nodes, 2), replicas}
	g, ok := m.memo[key]
	if !ok {
		c, err := m.Best(nodes, replicas, m.limits)
		if err != nil && !errors.Is(err, adapt.ErrNoChoice) {
			// The limits are those of the application.
			panic(err)
		}
		g = c.Goodput
		m.memo[key] = g
	}
	return g
}

// mostReplicas is how many replicas a job may have: no more than have a batch each.
func (j *job) mostReplicas(slots int) int {
	if j.app.Name == "ncf" {
		// The published runs do this with a batch of 32768.
		return 1
	}
	return min(slots, j.app.MaxBatch/j.app.MinLocalBatch)
}

// arriveAdaptive lets a job choose its batch.
func arriveAdaptive(j *job) {
	j.profile = newMeasured(j.app)
	if j.app.Name == "ncf" {
		j.batch = 32768
	}
}
