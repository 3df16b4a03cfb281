package telemetry

import (
	"math"
	"slices"
	"time"
)

// The past that a History keeps, while the job is small enough; see fit.
const (
	FineStep   = time.Second
	FinePoints = 600 // the last ten minutes

	CoarseStep = 30 * time.Second

	// CoarsePoints is for the whole job: when there are as many points, every second one is
	// dropped, and the step doubles.
	CoarsePoints = 1024
)

const (
	// goneFor is how long the past of a process that is gone is kept, of the maxGone newest
	// ones.
	goneFor = 10 * time.Minute
	maxGone = 64
	// budget is how many points all fine rings have together, and how many all coarse ones: 32
	// MB each. Larger jobs have shorter rings, but at least leastFine and leastCoarse points.
	budget      = 8 << 20
	leastFine   = 60
	leastCoarse = 128
)

// A History keeps what the processes of one job measure: of each the newest record and some of the
// past. It is not for use by several goroutines.
type History struct {
	begin time.Time

	// hold is how far apart records may be without a gap between them.
	hold time.Duration

	nodes map[uint64]*past

	// gone has nodes in the order in which they went.
	gone []uint64

	totals [numSlots]float64

	// scores are the names of test scores, by the index of TestScore.
	scores []string

	// budget is for the points of all fine rings together, and again for all coarse ones.
	budget int

	// columns counts those of all nodes.
	columns int

	// finePoints is the number of points in a fine ring.
	finePoints int

	// coarseStep is that of the coarse rings.
	coarseStep time.Duration

	// mostCoarse is the number of points in a coarse ring.
	mostCoarse int
}

// NewHistory returns the History of a job's scheduler that begins now. Nodes send a record each
// heartbeat.
func NewHistory(begin time.Time, heartbeat time.Duration) *History {
	return &History{begin: begin, hold: heartbeat * 5 / 2, nodes: make(map[uint64]*past), budget: budget, finePoints: FinePoints, coarseStep: CoarseStep, mostCoarse: CoarsePoints}
}

// A Column is one value of each process.
type Column struct {
	Metric Metric
	Index  int
}

func (c Column) slot() int { return first[c.Metric] + c.Index }

// columnOf is the Column of a slot.
func columnOf(slot int) Column {
	m, _ := slices.BinarySearch(first[:], slot+1) // first[m] is the first above slot
	return Column{Metric(m - 1), slot - first[m-1]}
}

// Columns are those that some process has a value of, among the metrics; nil: all.
func (h *History) Columns(metrics []Metric) (list []Column) {
	var has [numSlots]bool
	for _, p := range h.nodes {
		for i, v := range p.values {
			has[i] = has[i] || !math.IsNaN(v)
		}
	}
	for i, ok := range has {
		if c := columnOf(i); ok && (metrics == nil || slices.Contains(metrics, c.Metric)) {
			list = append(list, c)
		}
	}
	return list
}

// Newest is the newest value that a process has sent; NaN: none.
func (h *History) Newest(node uint64, c Column) float64 {
	if p := h.nodes[node]; p != nil {
		return p.values[c.slot()]
	}
	return math.NaN()
}

// Age is how old the newest record of a process is.
func (h *History) Age(at time.Time, node uint64) (age time.Duration, known bool) {
	p := h.nodes[node]
	if p == nil {
		return 0, false
	}
	return max(0, at.Sub(h.begin)-p.at), true
}

// Total is the sum of a counter over all processes of the job that have sent a record, those that
// are gone too.
func (h *History) Total(c Column) float64 {
	total := h.totals[c.slot()]
	for _, node := range h.sorted() {
		if v := h.nodes[node].values[c.slot()]; !math.IsNaN(v) {
			total += v
		}
	}
	return total
}

// sorted are the nodes in order: sums of floats depend on it.
func (h *History) sorted() []uint64 {
	list := make([]uint64, 0, len(h.nodes))
	for node := range h.nodes {
		list = append(list, node)
	}
	slices.Sort(list)
	return list
}

// isCounter and isKept say of each slot what Info says of its metric.
var isCounter, isKept = func() (counter, kept [numSlots]bool) {
	for slot := range numSlots {
		i, _ := columnOf(slot).Metric.Info()
		counter[slot], kept[slot] = i.Kind == Counter, i.Kept
	}
	return counter, kept
}()

// LastSteps are those of the newest record of a process.
func (h *History) LastSteps(node uint64) []Step {
	if p := h.nodes[node]; p != nil {
		return p.steps
	}
	return nil
}

// Scores are the names of the scores that processes of the job have sent, the first MaxScores: name
// i is that of index i of TestScore.
func (h *History) Scores() []string { return slices.Clone(h.scores) }
