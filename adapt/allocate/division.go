package allocate

import (
	"cmp"
	"math"
	"slices"
)

// A division is one call of Divide at work. Nodes are known by their index by name, jobs by their
// index by priority: pinned ones first, then by age, then by ID.
type division struct {
	Config
	nodes  []Node
	byName map[string]int
	total  int // slots
	widest int // slots of the largest node
	spans  []int
	jobs   []*work
	input  []*work // in the caller's order
}

// work is a job and what is decided of it.
type work struct {
	Job
	least, most int
	current     []int // replicas on each node that is still there
	have        int   // their sum
	lost        []string
	pinned      bool
	goodput     []float64 // by replicas on as few nodes as possible; -1: not asked yet
	left        float64   // seconds on Min replicas
	rank        float64   // 1: the most is left

	want    int // replicas, from sizes
	given   []int
	got     int
	evicted bool
}

func newDivision(c Config, nodes []Node, jobs []Job) *division {
	d := &division{Config: c, nodes: slices.Clone(nodes), byName: map[string]int{}}
	slices.SortFunc(d.nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	var slots []int
	for i, n := range d.nodes {
		d.byName[n.Name] = i
		d.total += n.Slots
		d.widest = max(d.widest, n.Slots)
		slots = append(slots, n.Slots)
	}
	slices.SortFunc(slots, func(a, b int) int { return b - a })
	d.spans = []int{0}
	for n, s := range slots {
		for range s {
			d.spans = append(d.spans, n+1)
		}
	}
	for _, j := range jobs {
		w := &work{Job: j, least: max(j.Min, 1), most: d.total, current: make([]int, len(nodes)), given: make([]int, len(nodes))}
		if j.Max > 0 {
			w.most = min(j.Max, d.total)
		}
		for _, name := range sortedNames(j.Current) {
			r := j.Current[name]
			if i, ok := d.byName[name]; ok {
				w.current[i] = min(r, d.nodes[i].Slots)
				r -= w.current[i]
				w.have += w.current[i]
			}
			if r > 0 {
				w.lost = append(w.lost, name)
			}
		}
		w.pinned = j.NonPreemptible && w.have > 0 && len(w.lost) == 0
		w.goodput = make([]float64, d.total+1)
		for k := range w.goodput {
			w.goodput[k] = -1
		}
		d.jobs = append(d.jobs, w)
	}
	d.input = slices.Clone(d.jobs)
	if d.First == 0 && len(jobs) > 0 {
		d.First = max(1, min(d.total/len(jobs), d.widest))
	}
	slices.SortFunc(d.jobs, func(a, b *work) int {
		if a.pinned != b.pinned {
			if a.pinned {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Age, a.Age), cmp.Compare(a.ID, b.ID))
	})
	// A node that has fewer slots than before holds those of its jobs that come first.
	states := d.states()
	for _, w := range d.jobs {
		if w.pinned && d.fits(states, w.current) {
			take(states, w, w.current)
		} else if w.pinned {
			w.pinned = false
			w.lost = sortedNames(w.Current)
		}
	}
	return d
}

func sortedNames(a Allocation) []string {
	names := make([]string, 0, len(a))
	for name, r := range a {
		if r > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// rate is a job's goodput on replicas over as few nodes as hold them; by replicas alone without a
// profile.
func (d *division) rate(w *work, replicas int) float64 {
	if replicas <= 0 || replicas > d.total {
		return 0
	}
	if w.goodput[replicas] < 0 {
		w.goodput[replicas] = d.rateOver(w, d.spans[replicas], replicas)
	}
	return w.goodput[replicas]
}

func (d *division) rateOver(w *work, nodes, replicas int) float64 {
	if w.Goodput == nil || replicas == 0 {
		return float64(replicas)
	}
	if g := w.Goodput(nodes, replicas); g > 0 && !math.IsInf(g, 0) {
		return g
	}
	return 0
}
