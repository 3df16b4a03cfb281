package telemetry

import (
	"math"
	"math/rand/v2"
	"time"
)

// A training is a made-up job in which all workers begin each step together, once they have what
// the servers made of the step before.
type training struct {
	random *rand.Rand

	// jitter is a factor of each worker's work in a step.
	jitter func(*rand.Rand) float64

	shards  int
	tally   Tally
	compute []float64 // seconds of each step, by worker
	data    []float64

	// network is the seconds from its gradient to a whole contribution.
	network []float64

	save   []float64 // for the next step
	silent bool      // workers report no steps

	// plain says that workers report no times but the step's.
	plain bool

	// slack is the seconds that each worker computes after its push without the new value.
	slack float64

	// began is, with slack, when each worker began its step.
	began []float64

	// ended is, with slack, when the last round did.
	ended float64

	// local is how many steps there are of which the servers see the last; 0 or 1: they see all.
	local int

	own map[int]func(*rand.Rand) float64 // jitter of single workers' compute
}

const (
	aStep   = 1.   // seconds of compute
	aData   = .02  // seconds waiting for data
	aTrip   = .05  // seconds for a contribution
	firstID = 1000 // nodes are numbered from here
)

func newTraining(seed uint64, workers int, jitter func(*rand.Rand) float64) *training {
	j := &training{random: rand.New(rand.NewPCG(seed, 7)), jitter: jitter, shards: 8}
	j.tally.Shards = 8
	for range workers {
		j.join()
	}
	return j
}

func (j *training) join() {
	node := uint64(firstID)
	if n := len(j.tally.Workers); n > 0 {
		node = j.tally.Workers[n-1].Node + 1
	}
	j.tally.Workers = append(j.tally.Workers, WorkerTally{Node: node})
	j.compute, j.data, j.network, j.save = append(j.compute, aStep), append(j.data, aData), append(j.network, aTrip), append(j.save, 0)
}

func (j *training) leave(i int) {
	cut := func(list *[]float64) { *list = append((*list)[:i:i], (*list)[i+1:]...) }
	j.tally.Workers = append(j.tally.Workers[:i:i], j.tally.Workers[i+1:]...)
	cut(&j.compute)
	cut(&j.data)
	cut(&j.network)
	cut(&j.save)
}

// step makes one step of all.
func (j *training) step() {
	workers := len(j.tally.Workers)
	busy, came := make([]float64, workers), make([]float64, workers)
	local := max(j.local, 1)
	for range local {
		for i := range busy {
			jitter := j.jitter
			if own := j.own[i]; own != nil {
				jitter = own
			}
			busy[i] += j.compute[i] * jitter(j.random)
		}
	}
	last := 0.
	for i := range busy {
		came[i] = busy[i] + j.data[i]*float64(local) + j.save[i] + j.network[i]*j.jitter(j.random)
		last = max(last, came[i])
	}
	wait := make([]float64, workers)
	for i := range came {
		wait[i] = last - busy[i] - j.data[i]*float64(local) - j.save[i]
	}

	// Values are there when the last contribution is, and each worker needs them after its slack.
	if j.slack > 0 {
		j.began = append(j.began, make([]float64, workers-len(j.began))...)
		all := 0.
		for i := range came {
			came[i] += j.began[i]
			all = max(all, came[i])
		}
		for i := range came {
			// The worker looks whether the value is there.
			wait[i] = max(.001, all-came[i]-j.slack)
			j.began[i] = came[i] + wait[i]
		}
		last = all - j.ended
		j.ended = all
	}
	for i := range j.tally.Workers {
		w := &j.tally.Workers[i]
		if j.plain {
			w.Steps++
			w.StepSeconds += last
			continue
		}
		if j.silent {
			w.Steps, w.StepSeconds, w.WaitSeconds, w.DataSeconds, w.SaveSeconds = math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
			continue
		}
		w.Steps += float64(local)
		w.StepSeconds += last
		w.DataSeconds += j.data[i] * float64(local)
		w.SaveSeconds += j.save[i]
		w.WaitSeconds += wait[i]
		j.save[i] = 0
	}

	// Contributions to shards come a little before or behind one another.
	for range j.shards {
		first, second, who := math.Inf(-1), math.Inf(-1), 0
		for i := range came {
			at := came[i] - .002*j.random.Float64()
			switch {
			case at > first:
				first, second, who = at, first, i
			case at > second:
				second = at
			}
		}
		if workers > 1 {
			j.tally.Workers[who].BlamedRounds++
			j.tally.Workers[who].BlamedSeconds += first - second
		}
		j.tally.Rounds++
	}
	j.tally.At += time.Duration(last * 1e9)
}

// window makes steps, and returns the tallies before and after each.
func (j *training) window(steps int) []Tally {
	list := []Tally{*j.now()}
	for range steps {
		j.step()
		list = append(list, *j.now())
	}
	return list
}

// now is a copy of the tally.
func (j *training) now() *Tally {
	t := j.tally
	t.Workers = append([]WorkerTally(nil), t.Workers...)
	return &t
}

func normal(sigma float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return math.Max(.1, 1+sigma*r.NormFloat64()) }
}

func uniform(width float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return 1 + width*(2*r.Float64()-1) }
}
