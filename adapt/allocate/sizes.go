package allocate

import (
	"cmp"
	"math"
	"slices"
)

const (
	// waiting is ε, the speedup that a job without replicas is credited under Fair, as in
	// Pollux.
	waiting = 1e-3
	// horizon is how many seconds an allocation is taken to last at most, and burden by what
	// the cost of a change is multiplied, since a change of one job makes others change. Both
	// were tuned on the simulator (bench/pollux).
	horizon = 1800
	burden  = 3
)

// sizes chooses the number of replicas of each job by a dynamic program over the slots: the
// objective is a sum over jobs, so the best for the first n jobs with s slots follows from the best
// for n-1 jobs.
func (d *division) sizes() []int {
	d.weigh()
	sizes := d.candidates()
	// best[s] is the greatest value of the jobs so far with at most s slots; choice[j][s] is
	// what job j gets then.
	best := make([]float64, d.total+1)
	next := make([]float64, d.total+1)
	choice := make([][]int32, len(d.jobs))
	for i, w := range d.jobs {
		choice[i] = make([]int32, d.total+1)
		for s := range next {
			next[s] = math.Inf(-1)
		}
		for _, k := range d.options(w, sizes) {
			v := d.value(w, k)
			for s := k; s <= d.total; s++ {
				if x := best[s-k] + v; x > next[s] {
					next[s] = x
					choice[i][s] = int32(k)
				}
			}
		}
		best, next = next, best
	}
	out := make([]int, len(d.jobs))
	left := d.total
	for i := len(d.jobs) - 1; i >= 0; i-- {
		out[i] = int(choice[i][left])
		left -= out[i]
	}
	return out
}

// candidates are the sizes that are looked at: all in a small cluster. In a large one all up to the
// largest node, then whole nodes, of which four or more go up in steps of a quarter to a half.
func (d *division) candidates() []int {
	var sizes []int
	for k := 1; k <= d.total; k++ {
		if k <= d.widest || d.total <= 16 || k%d.widest == 0 && coarse(k/d.widest) {
			sizes = append(sizes, k)
		}
	}
	return sizes
}

// coarse has the numbers 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on.
func coarse(n int) bool {
	for n > 4 && n%2 == 0 {
		n /= 2
	}
	return n <= 4
}

// options are the sizes of one job, the one it has first: of equal values the first counts.
func (d *division) options(w *work, sizes []int) []int {
	if w.pinned {
		return []int{w.have}
	}
	most := w.most
	if w.Goodput == nil {
		most = min(most, max(d.First, w.least))
	} else if w.Profiled > 0 {
		most = min(most, max(int(d.Growth*float64(w.Profiled)), w.least))
	}
	var out []int
	keep := w.have >= w.least && w.have <= w.most && len(w.lost) == 0
	if keep {
		out = append(out, w.have)
	}
	out = append(out, 0)
	for _, k := range sizes {
		if k >= w.least && k <= most && !(keep && k == w.have) && d.rate(w, k) > 0 {
			out = append(out, k)
		}
	}
	return out
}

// weigh ranks the jobs by the work that is left. Of equal ones the younger come first.
func (d *division) weigh() {
	for _, w := range d.jobs {
		w.left = (w.Age + d.Interval).Seconds()
		if one := d.rate(w, w.least); w.Remaining > 0 && w.Goodput != nil && one > 0 {
			w.left = w.Remaining / one
		}
	}
	ranked := slices.Clone(d.jobs)
	slices.Reverse(ranked)
	slices.SortStableFunc(ranked, func(a, b *work) int { return cmp.Compare(b.left, a.left) })
	for i, w := range ranked {
		w.rank = float64(i + 1)
	}
}

// value is a job's term of the objective with k replicas on as few nodes as possible.
func (d *division) value(w *work, k int) float64 {
	return d.term(w, d.rate(w, k), k != w.have || len(w.lost) > 0)
}

// term is a job's part of the objective at a rate of progress, which it has had all along or
// changes to.
func (d *division) term(w *work, rate float64, changed bool) float64 {
	s := 0.0
	if base := d.rate(w, w.least); rate > 0 && base > 0 {
		s = rate / base
		if changed {
			s *= d.lasting(w, rate)
		}
	}
	if d.Objective == Fair {
		return math.Pow(s+waiting, d.Fairness) / d.Fairness
	}
	return w.rank * s
}

// lasting is what a change to a rate leaves of the speedup. The new allocation is taken to last as
// long as the job's allocations did so far, and not beyond its end.
func (d *division) lasting(w *work, rate float64) float64 {
	last := min(max(w.Age.Seconds()/float64(w.Changes+1), d.Interval.Seconds()), horizon)
	if w.Remaining > 0 && w.Goodput != nil {
		last = min(last, w.Remaining/rate)
	}
	f := last / (last + burden*w.ChangeCost.Seconds())
	if w.have > 0 {
		f /= 1 + d.Hysteresis
	}
	return f
}
