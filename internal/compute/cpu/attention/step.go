package attention

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// stepQueries is up to how many queries of an example are computed one by one: each reads the keys
// as they lie, and a panel of mostly nothing costs more.
const stepQueries = 4

// A Step is causal attention of T queries over a cache of keys of which each example has its own
// number, for sampling.
type Step struct {
	plan *Plan

	o    Heads
	in   Inputs
	task func(thread, i int)

	// scores are those of a query, of each thread.
	scores []float32
}

// NewStep is a step of a plan whose S is the positions of the cache.
func NewStep(l *Plan) *Step {
	s := &Step{plan: l}
	s.task = s.query
	return s
}

// ScratchLen is the number of values of scratch memory for Run.
func (s *Step) ScratchLen() int {
	if s.plan.T > stepQueries {
		return s.plan.ForwardScratchLen()
	}
	return s.plan.threads * (s.plan.S + 15) / 16 * 16
}

// Run sets o. in.First says how many keys each example has before its first query; the keys of the
// queries are in K and V. scratch has ScratchLen values.
func (s *Step) Run(o Heads, in Inputs, scratch []float32) {
	l := s.plan
	if l.T > stepQueries {
		l.Forward(o, nil, in, scratch)
		return
	}
	s.o, s.in, s.scores = o, in, scratch
	l.pool.RunThreads(l.B*l.H, s.task)
	s.o, s.in, s.scores = Heads{}, Inputs{}, nil
}

// query computes the queries of a head.
func (s *Step) query(thread, i int) {
	l, b, h := s.plan, i/s.plan.H, i%s.plan.H
	room := len(s.scores) / l.threads
	for t := range l.T {
		n := s.in.First[b] + t + 1
		scores := s.scores[thread*room:][:n]
		q := s.in.Q.Data[l.at(&s.in.Q, b, t, h):][:l.D]
		for j := range scores {
			scores[j] = float32(l.Scale) * f32.Dot(q, s.in.K.Data[l.at(&s.in.K, b, j, h/l.group):][:l.D])
			if l.slopes != nil {
				scores[j] += float32(l.slopes[h] * float64(j+1-n))
			}
		}
		most, sum := f32.Max(scores), 0.0
		for j, x := range scores {
			e := math.Exp(float64(x - most))
			scores[j] = float32(e)
			sum += e
		}
		o := s.o.Data[l.at(&s.o, b, t, h):][:l.D]
		clear(o)
		for j, p := range scores {
			f32.Axpy(o, p, s.in.V.Data[l.at(&s.in.V, b, j, h/l.group):][:l.D])
		}
		f32.Scale(o, float32(1/sum), o)
	}
}
