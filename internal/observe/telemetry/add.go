package telemetry

import (
	"math"
	"slices"
	"time"
)

// Add adds the record that a process of the job has sent. One whose counters are below those of the
// last one is older, and is left out.
func (h *History) Add(at time.Time, node uint64, r *Record) {
	now := at.Sub(h.begin)
	h.forget(now)
	h.thin(now)
	p := h.nodes[node]
	isNew := p == nil
	if isNew {
		p = &past{}
		for i := range p.values {
			p.values[i] = math.NaN()
		}
		p.fine, p.coarse = newRing(now, FineStep), newRing(now, h.coarseStep)
	}
	values := p.values
	for _, s := range r.Samples {
		if i := first[s.Metric] + int(s.Index); i < first[s.Metric+1] {
			if isCounter[i] && s.Value < values[i] {
				return
			}
			values[i] = s.Value
		}
	}
	h.addScores(&values, r.Scores)
	if p.gone || now < p.at {
		return
	}
	h.nodes[node] = p
	if isNew {
		p.at = now
	}
	h.addColumns(p, now, &values)
	bridged := now-p.at <= h.hold
	p.fine.advance(p, now, &values, bridged, h.finePoints)
	if p.fine.next-p.fine.oldest > int64(h.finePoints+slack(h.finePoints)) {
		p.fine.drop(h.finePoints)
	}
	p.coarse.advance(p, now, &values, bridged, h.mostCoarse)
	p.values, p.at, p.steps = values, now, r.Steps
	h.addBlames(p, r.Blames, isNew)
}

// Gone says that a process of the job has ended. Its counters stay in Total.
func (h *History) Gone(at time.Time, node uint64) {
	if p := h.nodes[node]; p != nil && !p.gone {
		p.gone, p.went = true, at.Sub(h.begin)
		h.gone = append(h.gone, node)
		h.forget(p.went)
	}
}

// forget forgets processes that have been gone for long.
func (h *History) forget(now time.Duration) {
	n := 0
	for n < len(h.gone) && (len(h.gone)-n > maxGone || now-h.nodes[h.gone[n]].went > goneFor) {
		p := h.nodes[h.gone[n]]
		for i, v := range p.values {
			if isCounter[i] && !math.IsNaN(v) {
				h.totals[i] += v
			}
		}
		h.columns -= len(p.fine.columns)
		delete(h.nodes, h.gone[n])
		for _, server := range h.nodes {
			delete(server.charged, h.gone[n])
		}
		n++
	}
	h.gone = slices.Delete(h.gone, 0, n)
}
