package allocate

import "math"

// Numbers of the objective, tuned on the simulator (bench/pollux).
var (
	waiting = 1e-3  // ε
	urgency = 0.5   // the weight is the remaining time to the power of -urgency
	horizon = 600.0 // seconds for which a decision holds: what the cost of a change is compared with
)

// sizes chooses the number of replicas of each job by a dynamic program over the slots: the sum of the jobs' terms of the power mean is
// separable, so the best for the first n jobs with s slots follows from the best for n-1 jobs.
func (d *division) sizes() []int {
	weigh(d)
	sizes := d.candidates()
	// best[s] is the greatest value of the jobs so far with at most s slots; choice[j][s] is what job j gets then.
	best := make([]float64, d.total+1)
	next := make([]float64, d.total+1)
	choice := make([][]int16, len(d.jobs))
	for i, w := range d.jobs {
		choice[i] = make([]int16, d.total+1)
		for s := range next {
			next[s] = math.Inf(-1)
		}
		for _, k := range d.options(w, sizes) {
			v := d.value(w, k)
			for s := k; s <= d.total; s++ {
				if x := best[s-k] + v; x > next[s] {
					next[s] = x
					choice[i][s] = int16(k)
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

// candidates are the sizes that are looked at: all up to the largest node, then whole nodes.
func (d *division) candidates() []int {
	var sizes []int
	for k := 1; k <= d.total; k++ {
		if k <= d.widest || d.total <= 16 || k%max(d.widest, 1) == 0 {
			sizes = append(sizes, k)
		}
	}
	return sizes
}

// options are the sizes of one job, the one it has first: of equal values the first counts.
func (d *division) options(w *work, sizes []int) []int {
	if w.pinned {
		return []int{w.have}
	}
	var out []int
	keep := w.have >= w.least && w.have <= w.most && len(w.lost) == 0
	if keep {
		out = append(out, w.have)
	}
	out = append(out, 0)
	for _, k := range sizes {
		if k >= w.least && k <= w.most && !(keep && k == w.have) && d.rate(w, k) > 0 {
			out = append(out, k)
		}
	}
	return out
}

// weigh sets the jobs' weights.
func weigh(d *division) {
	for _, w := range d.jobs {
		t := w.Age.Seconds() + d.Interval.Seconds()
		if one := d.rate(w, w.least); w.Remaining > 0 && w.Goodput != nil && one > 0 {
			t = w.Remaining / one
		}
		w.weight = math.Pow(max(t, 60), -urgency)
	}
}

// value is a job's term of the power mean with k replicas.
func (d *division) value(w *work, k int) float64 {
	p := d.Fairness
	s := 0.0
	if base := d.rate(w, w.least); k > 0 && base > 0 {
		s = d.rate(w, k) / base
	}
	if k != w.have || len(w.lost) > 0 {
		s *= max(0, 1-w.ChangeCost.Seconds()/horizon)
		if k > 0 && w.have > 0 {
			s /= 1 + d.Hysteresis
		}
	}
	return w.weight * math.Pow(s+waiting, p) / p
}
