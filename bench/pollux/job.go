package main

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/bench/pollux/internal/trace"
)

// A profile is what a job that chooses its batch measures of itself.
type profile interface {
	// observe records a configuration in which the job has run, with the squared norm and the
	// variance of its gradient.
	observe(nodes, replicas, localBatch int, t trace.Times, sqr, variance float64) error
	// best returns the local batch and the accumulation for a number of nodes and replicas; ok
	// is false before the first observation.
	best(nodes, replicas int) (localBatch, accumulation int, ok bool, err error)
}

// A job is one of a workload while it is simulated. Times are whole seconds, as in the published
// simulator.
type job struct {
	trace.Job
	app *trace.Application

	// batch is the global one, if it is fixed; 0: the profile chooses it.
	batch int

	profile profile

	// alloc has the node of each replica; replicas of one node are next to each other.
	alloc []int

	// local is the number of examples of a replica in one pass, and accum that of passes before the
	// one that ends a step.
	local int
	accum int

	// delay is how much of the time that a change of allocation takes is left.
	delay int

	// restarts is -1 before the first start.
	restarts int

	progress float64
	epoch    int

	// service is in seconds times replicas.
	service int

	// ended is the time of the end; -1: it has not ended.
	ended int
}

// placement is the number of replicas on each node.
func (j *job) placement() []int {
	var p []int
	for i, n := range j.alloc {
		if i > 0 && n == j.alloc[i-1] {
			p[len(p)-1]++
		} else {
			p = append(p, 1)
		}
	}
	return p
}

// step runs the job from now on for some seconds; slow is the part of its speed that interference
// takes.
func (j *job) step(now, seconds int, slow float64) error {
	if len(j.alloc) == 0 || j.ended >= 0 {
		return nil
	}
	d := min(j.delay, seconds)
	j.delay -= d
	j.service += d * len(j.alloc)
	placement := j.placement()
	for d < seconds && j.ended < 0 {
		global := len(j.alloc) * j.local * (j.accum + 1)
		t, err := j.app.Step(placement, j.local)
		if err != nil {
			return err
		}
		sqr, variance, err := j.app.Noise(global, j.epoch)
		if err != nil {
			return err
		}
		if j.profile != nil {
			if err := j.profile.observe(len(placement), len(j.alloc), j.local, t, sqr, variance); err != nil {
				return err
			}
		}
		scale := float64(global) / float64(j.app.InitialBatch)
		gain := (variance + sqr) / (variance/scale + sqr)
		goodput := gain / (t.Step + (t.Step-t.Sync)*float64(j.accum)) * (1 - slow)
		next := j.app.Progress(j.epoch + 1)
		if left := seconds - d; j.progress+goodput*float64(left) < next {
			j.progress += goodput * float64(left)
			j.service += left * len(j.alloc)
			d = seconds
		} else {
			took := int(math.RoundToEven((next - j.progress) / goodput))
			j.epoch++
			d += took
			if j.epoch >= j.app.Epochs {
				j.ended = now + d
			}
			j.progress = next
			j.service += took * len(j.alloc)
		}
		if err := j.choose(placement); err != nil {
			return err
		}
	}
	return nil
}

// choose sets local batch and accumulation for a placement.
func (j *job) choose(placement []int) error {
	replicas := len(j.alloc)
	batch := j.batch
	if batch == 0 {
		var ok bool
		var err error
		if j.local, j.accum, ok, err = j.profile.best(len(placement), replicas); err != nil {
			return fmt.Errorf("job %s: %w", j.Name, err)
		} else if ok {
			j.limit()
			return nil
		}
		batch = max(j.app.InitialBatch, j.app.MinLocalBatch*replicas)
	}
	local := divideUp(batch, replicas)
	j.accum = divideUp(local, j.app.MaxLocalBatch) - 1
	if replicas == 1 && batch > j.app.InitialBatch {
		j.accum = max(1, j.accum)
	}
	j.local = divideUp(local, j.accum+1)
	j.limit()
	return nil
}

// limit keeps the global batch within the application's largest.
func (j *job) limit() { j.local = min(j.local, j.app.MaxBatch/(len(j.alloc)*(j.accum+1))) }

// reallocate gives the job other slots, which costs some seconds.
func (j *job) reallocate(alloc []int, cost int) error {
	j.alloc = alloc
	if len(alloc) == 0 {
		return nil
	}
	j.restarts++
	j.delay = cost
	return j.choose(j.placement())
}

func divideUp(a, b int) int { return (a + b - 1) / b }
