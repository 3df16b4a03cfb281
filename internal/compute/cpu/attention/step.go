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

	// scratch has, for each thread, the scores of a query and two rows of columns.
	scratch []float32
}

// NewStep is a step of a plan whose S is the positions of the cache.
func NewStep(l *Plan) *Step {
	s := &Step{plan: l}
	s.task = s.query
	return s
}

// room is what a thread needs: scores in whole rows of columns, and two rows more.
func (s *Step) room() int {
	cols := s.plan.cols
	return (s.plan.S+cols-1)/cols*cols + 2*cols
}

// ScratchLen is the number of values of scratch memory for Run.
func (s *Step) ScratchLen() int {
	if s.plan.T > stepQueries {
		return s.plan.ForwardScratchLen()
	}
	return s.plan.threads * s.room()
}

// Run sets o. in.First says how many keys each example has before its first query; the keys of the
// queries are in K and V. scratch has ScratchLen values.
func (s *Step) Run(o Heads, in Inputs, scratch []float32) {
	l := s.plan
	if l.T > stepQueries {
		l.Forward(o, nil, in, scratch)
		return
	}
	s.o, s.in, s.scratch = o, in, scratch
	l.pool.RunThreads(l.B*l.H, s.task)
	s.o, s.in, s.scratch = Heads{}, Inputs{}, nil
}

// query computes the queries of a head.
func (s *Step) query(thread, i int) {
	l, b, h := s.plan, i/s.plan.H, i%s.plan.H
	memory := s.scratch[thread*s.room():][:s.room()]
	for t := range l.T {
		n := s.in.First[b] + t + 1
		q := s.in.Q.Data[l.at(&s.in.Q, b, t, h):][:l.D]
		for j := range n {
			memory[j] = float32(l.Scale) * f32.Dot(q, s.in.K.Data[l.at(&s.in.K, b, j, h/l.group):][:l.D])
			if l.slopes != nil {
				memory[j] += float32(l.slopes[h] * float64(j+1-n))
			}
		}
		sum := l.exponentials(memory, n)
		o := s.o.Data[l.at(&s.o, b, t, h):][:l.D]
		clear(o)
		for j, p := range memory[:n] {
			f32.Axpy(o, p, s.in.V.Data[l.at(&s.in.V, b, j, h/l.group):][:l.D])
		}
		f32.Scale(o, 1/sum, o)
	}
}

// exponentials sets the n scores at the start of a thread's memory to the exponentials of what they
// are below the largest, and returns their sum.
func (l *Plan) exponentials(memory []float32, n int) (sum float32) {
	rows := (n + l.cols - 1) / l.cols * l.cols
	shift, sums := memory[len(memory)-l.cols:], memory[len(memory)-2*l.cols:len(memory)-l.cols]
	most := f32.Max(memory[:n])
	for j := n; j < rows; j++ {
		memory[j] = float32(math.Inf(-1))
	}
	for c := range shift {
		shift[c], sums[c] = most*math.Log2E, 0
	}
	f32.ExpColumns(memory[:rows], sums, shift, math.Log2E)
	return f32.Sum(sums)
}
