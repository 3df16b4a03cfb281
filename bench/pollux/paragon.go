package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/adapt/allocate"
)

// paragon is the policy that package tune runs.
type paragon struct {
	config allocate.Config
	nodes  []allocate.Node
}

func newParagon(o allocate.Objective) *paragon {
	return &paragon{config: allocate.Config{Objective: o}}
}

func (p *paragon) arrive(j *job) { arriveAdaptive(j) }

// decide asks package allocate, as the launcher of several jobs does.
func (p *paragon) decide(c *cluster, jobs []*job) ([][]int, error) {
	if p.nodes == nil {
		p.config.Interval = time.Duration(c.cycle) * time.Second
		for n := range c.nodes {
			p.nodes = append(p.nodes, allocate.Node{Name: nodeName(n), Slots: c.slots})
		}
	}
	list := make([]allocate.Job, len(jobs))
	for i, j := range jobs {
		list[i] = j.describe(c)
	}
	decisions, err := allocate.Divide(p.config, p.nodes, list)
	if err != nil {
		return nil, err
	}
	allocs := make([][]int, len(jobs))
	for i, d := range decisions {
		if !d.Changed {
			allocs[i] = jobs[i].alloc
			continue
		}
		for n, node := range p.nodes {
			for range d.Allocation[node.Name] {
				allocs[i] = append(allocs[i], n)
			}
		}
	}
	return allocs, nil
}

func nodeName(n int) string { return fmt.Sprintf("node%02d", n) }

// describe is what a running job reports of itself. What is left of it follows from its number of
// epochs.
func (j *job) describe(c *cluster) allocate.Job {
	m := j.profile.(*measured)
	a := allocate.Job{ID: j.Name, Max: j.mostReplicas(c.nodes * c.slots), Current: allocate.Allocation{}, Age: time.Duration(c.now-j.Arrival) * time.Second,
		Changes: max(j.restarts, 0), ChangeCost: time.Duration(c.cost) * time.Second}
	for _, n := range slices.Compact(slices.Clone(j.alloc)) {
		for _, r := range j.alloc {
			if r == n {
				a.Current[nodeName(n)]++
			}
		}
	}
	if m.Model != nil {
		a.Goodput, a.Profiled = m.corrected, m.most
		a.Remaining = (j.app.Progress(j.app.Epochs) - j.progress) * float64(j.app.InitialBatch)
	}
	return a
}
