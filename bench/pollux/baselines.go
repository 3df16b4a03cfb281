package main

import (
	"cmp"
	"fmt"
	"slices"
)

// tiresias runs each job with the replicas and the batch that its user asked for, preemptively,
// from two queues: jobs start in the first and fall to the second when they have run for 16 slot
// hours, by the time since they were chosen. Within a queue the earlier comes first. A job that
// does not fit waits; later ones may pass it.
type tiresias struct {
	queues  [2][]*job
	running map[*job]bool

	// checked is when the time of a running job was last added up; ran is that time.
	checked map[*job]int
	ran     map[*job]int
}

func newTiresias() *tiresias {
	return &tiresias{running: map[*job]bool{}, checked: map[*job]int{}, ran: map[*job]int{}}
}

// demotion is after how much work a job falls to the second queue, in slots times seconds.
const demotion = 16 * 3600

func (t *tiresias) arrive(j *job) { j.batch = j.Batch }

// decide lets jobs run with all of their replicas or not at all, in the order of the queues.
func (t *tiresias) decide(c *cluster, jobs []*job) ([][]int, error) {
	for i := range t.queues {
		t.queues[i] = slices.DeleteFunc(t.queues[i], func(j *job) bool { return j.ended >= 0 })
	}
	for _, j := range jobs {
		if _, known := t.running[j]; !known {
			t.running[j] = false
			t.queues[0] = append(t.queues[0], j)
		}
		if t.running[j] {
			t.ran[j] += c.now - t.checked[j]
			if i := slices.Index(t.queues[0], j); i >= 0 && t.ran[j]*j.Replicas >= demotion {
				t.queues[0] = slices.Delete(t.queues[0], i, i+1)
				t.queues[1] = append(t.queues[1], j)
			}
		}
		t.checked[j] = c.now
	}
	allocs := make([][]int, len(jobs))
	at := map[*job]int{}
	for i, j := range jobs {
		at[j] = i
		allocs[i] = j.alloc
	}
	free := c.nodes * c.slots
	for _, queue := range t.queues {
		for _, j := range queue {
			if t.running[j] = j.Replicas <= free; t.running[j] {
				free -= j.Replicas
			} else {
				allocs[at[j]] = nil
			}
		}
	}
	slots := c.free(allocs)
	for _, queue := range t.queues {
		for _, j := range queue {
			if i := at[j]; t.running[j] && allocs[i] == nil {
				allocs[i] = slots.take(j.Replicas)
			}
		}
	}
	return allocs, nil
}

// freeSlots are the free slots of each node.
type freeSlots []int

// free counts the slots of each node that these allocations leave.
func (c *cluster) free(allocs [][]int) freeSlots {
	f := make(freeSlots, c.nodes)
	for n := range f {
		f[n] = c.slots
	}
	for _, a := range allocs {
		for _, n := range a {
			f[n]--
		}
	}
	return f
}

// take takes slots from the node with the most, and again until there are enough; of nodes with as
// many the first. There must be enough.
func (f freeSlots) take(replicas int) []int {
	alloc := make([]int, 0, replicas)
	for len(alloc) < replicas {
		most := 0
		for n := range f {
			if f[n] > f[most] {
				most = n
			}
		}
		for range min(f[most], replicas-len(alloc)) {
			alloc = append(alloc, most)
			f[most]--
		}
	}
	return alloc
}

// optimus runs each job with the batch that its user asked for. It knows how many steps are left
// and how long each takes: a job gets one replica, in order of arrival, and then the job whose
// remaining time one more shortens most gets it, until none gains.
type optimus struct{}

func (optimus) arrive(j *job) { j.batch = j.Batch }

func (o optimus) decide(c *cluster, jobs []*job) ([][]int, error) {
	replicas, err := o.replicas(c, jobs)
	if err != nil {
		return nil, err
	}
	return c.place(jobs, replicas), nil
}

// replicas is how many each job gets.
func (o optimus) replicas(c *cluster, jobs []*job) ([]int, error) {
	free := c.nodes * c.slots
	replicas, gain, left := make([]int, len(jobs)), make([]float64, len(jobs)), make([]float64, len(jobs))
	for i, j := range jobs {
		var err error
		if left[i], err = o.left(j); err != nil {
			return nil, err
		}
	}
	next := func(i int) (err error) {
		gain[i], err = o.gain(c, jobs[i], replicas[i], free, left[i])
		return err
	}
	for i := range jobs {
		if free == 0 {
			break
		}
		replicas[i] = 1
		free--
		if err := next(i); err != nil {
			return nil, err
		}
	}
	for free > 0 {
		best := 0
		for i := range gain {
			if gain[i] > gain[best] {
				best = i
			}
		}
		if gain[best] <= 0 {
			break
		}
		replicas[best]++
		if err := next(best); err != nil {
			return nil, err
		}
		free--
	}
	return replicas, nil
}

// left is the number of steps that a job still has; 1 in its last epoch.
func (o optimus) left(j *job) (float64, error) {
	last := j.app.Epochs - 1
	if j.epoch >= last {
		return 1, nil
	}
	all, err := j.app.Iterations(j.batch, last)
	if err != nil {
		return 0, err
	}
	done, err := j.app.Iterations(j.batch, j.epoch)
	if err != nil {
		return 0, err
	}
	return all - done, nil
}

// place gives jobs their replicas. A job that has as many stays where it is; of the others those
// with the fewest come first.
func (c *cluster) place(jobs []*job, replicas []int) [][]int {
	allocs := make([][]int, len(jobs))
	order := make([]int, len(jobs))
	for i, j := range jobs {
		order[i] = i
		if len(j.alloc) == replicas[i] {
			allocs[i] = j.alloc
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(replicas[a], replicas[b]) })
	slots := c.free(allocs)
	for _, i := range order {
		if replicas[i] > 0 && allocs[i] == nil {
			allocs[i] = slots.take(replicas[i])
		}
	}
	return allocs
}

// gain is how many seconds one more replica saves; 0 where the job may have no more.
func (o optimus) gain(c *cluster, j *job, replicas, free int, left float64) (float64, error) {
	most := j.batch / j.app.MinLocalBatch
	if j.app.Name == "ncf" {
		most = 1
	}
	if replicas+1 > most || free < 1 {
		return 0, nil
	}
	now, err := o.stepTime(c, j, replicas)
	if err != nil {
		return 0, err
	}
	more, err := o.stepTime(c, j, replicas+1)
	if err != nil {
		return 0, err
	}
	return (now - more) * left, nil
}

// stepTime is for as few nodes as hold the replicas. It takes an accumulation step for granted with
// one replica, other than the job.
func (o optimus) stepTime(c *cluster, j *job, replicas int) (float64, error) {
	var placement []int
	for left := replicas; left > 0; left -= min(left, c.slots) {
		placement = append(placement, min(left, c.slots))
	}
	local := divideUp(j.batch, replicas)
	accum := divideUp(local, j.app.MaxLocalBatch) - 1
	if replicas == 1 {
		accum = max(1, accum)
	}
	local = min(divideUp(local, accum+1), j.app.MaxBatch/(replicas*(accum+1)))
	t, err := j.app.Step(placement, local)
	if err != nil {
		return 0, fmt.Errorf("job %s: %w", j.Name, err)
	}
	return t.Step + (t.Step-t.Sync)*float64(accum), nil
}
