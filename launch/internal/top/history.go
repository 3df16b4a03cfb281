package top

import (
	"cmp"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// asked are the metrics of the tables, which every question asks for; detailed are those that only
// one worker's page shows.
var (
	asked = []telemetry.Metric{telemetry.Steps, telemetry.Examples, telemetry.StepSeconds, telemetry.ComputeSeconds, telemetry.WaitSeconds, telemetry.DataSeconds,
		telemetry.Epoch, telemetry.Loss, telemetry.LearningRate, telemetry.Rounds, telemetry.RoundSeconds, telemetry.Waiting, telemetry.HeldBytes, telemetry.ValueBytes,
		telemetry.SentBytes, telemetry.ReceivedBytes, telemetry.CPUSeconds}
	detailed = []telemetry.Metric{telemetry.SaveSeconds, telemetry.GradientNorm, telemetry.GlobalBatch, telemetry.StalenessMean, telemetry.StalenessMax, telemetry.TestLoss, telemetry.TestAccuracy, telemetry.TestScore,
		telemetry.ResidentBytes, telemetry.HeartbeatTrip, telemetry.GPUMemoryUsed, telemetry.GPUMemoryTotal, telemetry.GPULoad, telemetry.GPUTemperature, telemetry.GPUPower}
)

// Names are the names of the metrics to ask for.
func Names(details bool) (names []string) {
	list := slices.Clone(asked)
	if details {
		list = slices.Concat(asked, detailed)
	}
	for _, m := range list {
		names = append(names, m.String())
	}
	return names
}

const (
	// rateMillis is the least time that rates are of, where so much is known.
	rateMillis = 5_000

	// rateLongest is the longest time that rates are of, where steps take longer.
	rateLongest = 60_000

	blameMillis = 30_000

	// maxSamples is how many each process has, those of a minute.
	maxSamples = 64

	// maxPoints is how many points a sparkline has.
	maxPoints = 160
)

// A sample is what a process had counted at a time.
type sample struct {
	// at is when the process recorded it, by the scheduler's clock, in ms.
	at int64

	values map[telemetry.Metric]float64
}

// A blame is what a worker had been charged with at a time.
type blame struct {
	at      int64
	rounds  uint64
	seconds float64
}

// A track is what is known of one process.
type track struct {
	// samples are in the order of their times, the oldest first.
	samples []sample

	blames                []blame
	stepTimes, throughput []float64

	// newest has the newest record, which is kept when the scheduler has none.
	newest map[telemetry.Metric]float64
}

// A History makes rates of the counters of successive answers. The zero value is ready.
type History struct {
	last   *control.Telemetry
	tracks map[uint64]*track
}

// Add takes an answer.
func (h *History) Add(t *control.Telemetry) {
	h.last = t

	// Processes that are no longer told of are forgotten.
	tracks := make(map[uint64]*track, len(t.Nodes))
	for i := range t.Nodes {
		n := &t.Nodes[i]
		x := h.tracks[n.Node]
		if x == nil {
			x = &track{}
		}
		tracks[n.Node] = x
		if n.Role == control.Worker {
			x.charge(blame{t.NowMillis, n.BlamedRounds, float64(n.BlamedSeconds)})
		}

		// Otherwise a new scheduler has not heard from it, and what was known before is still the
		// newest.
		if n.AgeMillis >= 0 {
			x.add(sample{t.NowMillis - n.AgeMillis, summed(t.Columns, n.Values)})
		}
	}
	h.tracks = tracks
}

// summed are the values by metric; those of all transports or GPUs are one sum.
func summed(columns []control.Value, values control.Numbers) map[telemetry.Metric]float64 {
	sums := make(map[telemetry.Metric]float64, len(asked))
	for i, c := range columns {
		m, ok := telemetry.ByName(c.Metric)
		v := float64(values[i])
		if !ok || math.IsNaN(v) {
			continue
		}
		sums[m] += v
	}
	return sums
}

// sameMillis is how far the times of one record in two answers may lie apart.
const sameMillis = 200

func (x *track) add(s sample) {
	x.newest = s.values
	if n := len(x.samples); n > 0 {
		before := x.samples[n-1]
		if math.Abs(float64(s.at-before.at)) < sameMillis {
			return
		}

		// The scheduler's clock was set, or another process has this number.
		if s.at < before.at || fellBack(before, s) {
			x.samples = nil
		} else {
			r := rate{before, s}
			x.stepTimes = push(x.stepTimes, r.each(telemetry.StepSeconds, telemetry.Steps), maxPoints)
			x.throughput = push(x.throughput, r.perSecond(telemetry.Examples), maxPoints)
		}
	}
	old := func(o sample) bool { return s.at-o.at > rateLongest }
	x.samples = push(slices.DeleteFunc(x.samples, old), s, maxSamples)
}

func fellBack(before, now sample) bool {
	for m, v := range now.values {
		if i, _ := m.Info(); i.Kind == telemetry.Counter && v < before.values[m] {
			return true
		}
	}
	return false
}

func (x *track) charge(b blame) {
	if n := len(x.blames); n > 0 && (b.at < x.blames[n-1].at || b.rounds < x.blames[n-1].rounds) {
		x.blames = nil
	}
	x.blames = push(x.blames, b, maxSamples)
}

// push appends, and drops the oldest beyond so many.
func push[T any](list []T, v T, most int) []T {
	if len(list) >= most {
		list = slices.Delete(list, 0, len(list)-most+1)
	}
	return append(list, v)
}

// A rate compares two samples of a process.
type rate struct{ from, to sample }

// window is the newest rate over at least rateMillis; a counter that must have grown makes it
// longer.
func (x *track) window(grown telemetry.Metric) (r rate, ok bool) {
	n := len(x.samples)
	if n < 2 {
		return r, false
	}
	r = rate{x.samples[n-2], x.samples[n-1]}
	for i := n - 3; i >= 0; i-- {
		span := r.to.at - x.samples[i].at
		if span > rateLongest || r.to.at-r.from.at >= rateMillis && r.grew(grown) > 0 {
			break
		}
		r.from = x.samples[i]
	}
	return r, true
}

// grew is how much a counter grew between the two samples. A counter that the older one does not
// have began at 0.
func (r rate) grew(m telemetry.Metric) float64 {
	to, ok := r.to.values[m]
	if !ok {
		return math.NaN()
	}
	return to - r.from.values[m]
}

// seconds is the time from the older sample to the newer one, by the scheduler's clock.
func (r rate) seconds() float64 { return float64(r.to.at-r.from.at) / 1e3 }

// perSecond is how much a counter grew in a second, on average.
func (r rate) perSecond(m telemetry.Metric) float64 { return r.grew(m) / r.seconds() }

// each is how much a counter grew for each one of another; NaN: that one did not grow.
func (r rate) each(m, of telemetry.Metric) float64 {
	if n := r.grew(of); n > 0 {
		return r.grew(m) / n
	}
	return math.NaN()
}

// blamed is how much a worker was charged with within the last blameMillis.
func (x *track) blamed() (rounds, seconds float64) {
	n := len(x.blames)
	if n == 0 {
		return 0, 0
	}
	to := x.blames[n-1]
	i, _ := slices.BinarySearchFunc(x.blames, to.at-blameMillis, func(b blame, at int64) int { return cmp.Compare(b.at, at) })
	return float64(to.rounds - x.blames[i].rounds), max(0, to.seconds-x.blames[i].seconds)
}
