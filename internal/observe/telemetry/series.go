package telemetry

import (
	"math"
	"slices"
	"time"
)

// A Span is a part of the past, at equally spaced times.
type Span struct {
	// From is the time of the first point.
	From time.Time

	// Step is the time between two points.
	Step time.Duration

	Points  int
	Columns []Column
	Nodes   []uint64

	fine bool

	// tick is the number of the first point's tick.
	tick int64
}

// Span is the past since a time (zero: all that is known) of the metrics and nodes (nil: all), at
// most so many points (0: any number), the newest. It has a point each second if that reaches back
// as far as is known of the time, else the coarser ones. The newest point is one heartbeat old:
// until then the records of all nodes have come.
func (h *History) Span(at, since time.Time, metrics []Metric, nodes []uint64, points int) Span {
	now := at.Sub(h.begin)
	from := time.Duration(0)
	if !since.IsZero() {
		from = min(max(0, since.Sub(h.begin)), max(0, now))
	}
	s := Span{Step: h.coarseStep, Columns: h.keptColumns(metrics)}

	// Values are held for two and a half heartbeats, so 2/5 of that is one.
	if end := now - h.hold*2/5; end >= 0 {
		reach := time.Duration(h.finePoints) * FineStep
		if s.fine = from >= end-reach; s.fine {
			s.Step = FineStep
		}
		s.tick = int64((from + s.Step - 1) / s.Step)
		last := int64(end / s.Step)
		if s.fine {
			s.tick = max(s.tick, last+1-int64(h.finePoints))
		}
		if points > 0 {
			s.tick = max(s.tick, last+1-int64(points))
		}
		s.Points = int(max(0, last+1-s.tick))
	}
	s.From = h.begin.Add(time.Duration(s.tick) * s.Step)
	if nodes = slices.Clone(nodes); nodes == nil {
		nodes = h.sorted()
	}
	slices.Sort(nodes)
	for _, node := range slices.Compact(nodes) {
		if h.nodes[node] != nil {
			s.Nodes = append(s.Nodes, node)
		}
	}
	return s
}

// keptColumns are the columns of metrics whose past is kept.
func (h *History) keptColumns(metrics []Metric) []Column {
	return slices.DeleteFunc(h.Columns(metrics), func(c Column) bool { return !isKept[c.slot()] })
}

// Values are the points of one process, by column; NaN: no record came.
func (h *History) Values(s Span, node uint64) [][]float64 {
	r := &h.nodes[node].coarse
	if s.fine {
		r = &h.nodes[node].fine
	}
	all := make([][]float64, len(s.Columns))
	for i, want := range s.Columns {
		all[i] = make([]float64, s.Points)
		at := slices.IndexFunc(r.columns, func(c column) bool { return c.slot == want.slot() })
		for k := range all[i] {
			all[i][k] = math.NaN()
			if at >= 0 {
				all[i][k] = r.columns[at].at(r, s.tick+int64(k))
			}
		}
	}
	return all
}
