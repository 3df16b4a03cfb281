package telemetry

import (
	"math"
	"time"
)

// A ring is the past of one process at equally spaced times, the ticks: multiples of step since the
// History's begin.
type ring struct {
	step time.Duration

	// oldest and next say that the columns have the points of ticks oldest to next-1.
	oldest, next int64

	columns []column
}

// A column is the past of one value. The points are the differences from base, which for a gauge is
// 0: a counter that is large would else lose the small differences that people look at.
type column struct {
	slot int
	base float64

	// points are NaN where no record came.
	points []float32
}

func newRing(now, step time.Duration) ring {
	tick := int64((now + step - 1) / step)
	return ring{step: step, oldest: tick, next: tick}
}

// advance adds the points up to now, at which p has values. In between values are known if the two
// records are bridged: counters are interpolated, gauges have the value of the record before.
func (r *ring) advance(p *past, now time.Duration, values *[numSlots]float64, bridged bool, most int) {
	last := int64(now / r.step)

	// None of them would be kept.
	if last-r.next >= int64(most) {
		for i := range r.columns {
			r.columns[i].points = r.columns[i].points[:0]
		}
		r.oldest, r.next = last, last
	}
	for ; r.next <= last; r.next++ {
		at := time.Duration(r.next) * r.step
		for i := range r.columns {
			c := &r.columns[i]
			v := values[c.slot]
			switch before := p.values[c.slot]; {
			case at == now:
			case !bridged:
				v = math.NaN()
			case isCounter[c.slot]:
				v = before + (v-before)*(float64(at-p.at)/float64(now-p.at))
			default:
				v = before
			}
			c.add(v, most)
		}
	}
}

// add adds a point. The capacity grows to what most points need, and not beyond.
func (c *column) add(v float64, most int) {
	if n := len(c.points); n == cap(c.points) {
		points := make([]float32, n, max(n+1, min(2*n+8, most+slack(most))))
		copy(points, c.points)
		c.points = points
	}
	c.points = append(c.points, float32(v-c.base))
}

// slack is how many points beyond most a fine ring may have before the oldest are dropped all at
// once.
func slack(most int) int { return most / 8 }

// drop drops points so that at most so many are left.
func (r *ring) drop(most int) {
	n := int(r.next-r.oldest) - most
	if n <= 0 {
		return
	}
	r.oldest += int64(n)
	for i := range r.columns {
		c := &r.columns[i]
		c.points = c.points[:copy(c.points, c.points[n:])]
		if isCounter[c.slot] {
			c.rebase()
		}
	}
}

// rebase makes the oldest value the base.
func (c *column) rebase() {
	for _, x := range c.points {
		if x == x {
			c.base += float64(x)
			for i := range c.points {
				c.points[i] -= x
			}
			return
		}
	}
}

// thin drops every second point, and doubles the step.
func (r *ring) thin() {
	// The first tick with an even number stays, and every second one behind it.
	from := r.oldest & 1
	for i := range r.columns {
		c := &r.columns[i]
		n := 0
		for k := int(from); k < len(c.points); k += 2 {
			c.points[n] = c.points[k]
			n++
		}
		c.points = c.points[:n]
	}
	r.step, r.oldest, r.next = 2*r.step, (r.oldest+1)/2, (r.next+1)/2
}

// at is a value at a tick.
func (c *column) at(r *ring, tick int64) float64 {
	if tick < r.oldest || tick >= r.next {
		return math.NaN()
	}
	return c.base + float64(c.points[tick-r.oldest])
}

// addColumns makes room for the values that are kept and were not there before.
func (h *History) addColumns(p *past, now time.Duration, values *[numSlots]float64) {
	has := 0
	for slot, v := range values {
		if !isKept[slot] || math.IsNaN(v) {
			continue
		}
		if has < len(p.fine.columns) && p.fine.columns[has].slot == slot {
			has++
			continue
		}
		base := 0.0
		if isCounter[slot] {
			base = v
		}
		for _, r := range []*ring{&p.fine, &p.coarse} {
			c := column{slot: slot, base: base, points: make([]float32, r.next-r.oldest)}
			for i := range c.points {
				c.points[i] = float32(math.NaN())
			}
			r.columns = append(r.columns, column{})
			copy(r.columns[has+1:], r.columns[has:])
			r.columns[has] = c
		}
		has++
		h.columns++
	}
	h.fit(now)
}

// fit makes the rings so short that all together keep to the budget.
func (h *History) fit(now time.Duration) {
	for h.columns*h.finePoints > h.budget && h.finePoints > leastFine {
		h.finePoints = max(leastFine, h.finePoints*3/4)
		for _, p := range h.nodes {
			p.fine.drop(h.finePoints)
			p.fine.shrink()
		}
	}
	for h.columns*h.mostCoarse > h.budget && h.mostCoarse > leastCoarse {
		h.mostCoarse = max(leastCoarse, h.mostCoarse/2)
	}
	h.thin(now)
}

// shrink gives memory back.
func (r *ring) shrink() {
	for i := range r.columns {
		r.columns[i].points = append([]float32(nil), r.columns[i].points...)
	}
}

// thin makes the coarse rings' step so long that the time until now has at most mostCoarse points.
func (h *History) thin(now time.Duration) {
	for now/h.coarseStep >= time.Duration(h.mostCoarse) {
		h.coarseStep *= 2
		for _, p := range h.nodes {
			p.coarse.thin()
		}
	}
}
