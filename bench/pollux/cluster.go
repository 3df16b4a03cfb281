package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/bench/pollux/internal/trace"
)

// A policy divides the cluster. decide gets the jobs that have arrived and not ended, in order of
// arrival, and returns the node of each replica of each; a job whose list is another than its alloc
// restarts.
type policy interface {
	// arrive prepares a job before the simulation begins.
	arrive(j *job)
	decide(c *cluster, jobs []*job) ([][]int, error)
}

// settings are what a simulation is made of besides workload and policy.
type settings struct {
	nodes, slots int

	// cycle is the time between decisions, and cost that of a change of allocation, in seconds.
	cycle int
	cost  int

	// interference is the part of its speed that a job on several nodes loses where it shares one
	// with another such job.
	interference float64
}

// A cluster is simulated. Time passes in cycles: jobs run for one, then the policy decides.
type cluster struct {
	settings
	jobs []*job

	// now is the time in seconds.
	now int
}

// An outcome is what a simulation ended with.
type outcome struct {
	jobs      []*job
	decisions []time.Duration
}

// simulate lets time pass until all jobs have ended. In each cycle the running jobs take their
// steps first; then the policy decides over those that have arrived and not ended.
func simulate(s settings, apps map[string]*trace.Application, workload []trace.Job, p policy) (*outcome, error) {
	c := &cluster{settings: s}
	for _, w := range workload {
		j := &job{Job: w, app: apps[w.Application], restarts: -1, ended: -1}
		p.arrive(j)
		c.jobs = append(c.jobs, j)
	}
	o := &outcome{jobs: c.jobs}
	for {
		shared := c.shared()
		for _, j := range c.jobs {
			slow := 0.0
			if c.interference > 0 && len(j.placement()) > 1 && slices.ContainsFunc(j.alloc, func(n int) bool { return shared[n] > 1 }) {
				slow = c.interference
			}
			if err := j.step(c.now, c.cycle, slow); err != nil {
				return nil, fmt.Errorf("at %d s: %w", c.now, err)
			}
		}
		c.now += c.cycle
		var active []*job
		left := 0
		for _, j := range c.jobs {
			if j.ended >= 0 {
				continue
			}
			left++
			if c.now >= j.Arrival {
				active = append(active, j)
			}
		}
		if left == 0 {
			return o, nil
		}
		if len(active) == 0 {
			continue
		}
		start := time.Now()
		allocs, err := p.decide(c, active)
		o.decisions = append(o.decisions, time.Since(start))
		if err == nil {
			err = c.check(active, allocs)
		}
		if err != nil {
			return nil, fmt.Errorf("at %d s: %w", c.now, err)
		}
		for i, j := range active {
			if !slices.Equal(j.alloc, allocs[i]) {
				if err := j.reallocate(allocs[i], c.cost); err != nil {
					return nil, fmt.Errorf("at %d s: %w", c.now, err)
				}
			}
		}
	}
}

// shared counts the jobs on several nodes on each node.
func (c *cluster) shared() []int {
	n := make([]int, c.nodes)
	for _, j := range c.jobs {
		if j.ended < 0 && len(j.placement()) > 1 {
			for _, node := range slices.Compact(slices.Clone(j.alloc)) {
				n[node]++
			}
		}
	}
	return n
}

// check refuses allocations that the cluster has no slots for.
func (c *cluster) check(jobs []*job, allocs [][]int) error {
	used := make([]int, c.nodes)
	for i, a := range allocs {
		for _, n := range a {
			if used[n]++; used[n] > c.slots {
				return fmt.Errorf("node %d got more than its %d replicas, the last from job %s", n, c.slots, jobs[i].Name)
			}
		}
	}
	return nil
}
