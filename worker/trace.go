package worker

import (
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
)

// traceOf is the Recorder of the store's process; nil, which is never on, for a store without one.
func traceOf(store kvstore.Store) *trace.Recorder {
	if s, ok := store.(trace.Owner); ok {
		return s.Trace()
	}
	return nil
}

// A passTrace records the passes of one unit.
type passTrace struct {
	r      *trace.Recorder
	device uint32
	// begin is that of the current run, by the Recorder's clock; 0: it is not recorded.
	begin int64
	// backward is when its backward pass began; 0: not known.
	backward int64
	// mark is the method value turned, made once.
	mark func()
}

// started begins the spans of a run of a program.
func (p *passTrace) started(program *nn.Program) {
	p.begin, p.backward = 0, 0
	if !p.r.On() {
		program.OnBackward(nil)
		return
	}
	if p.mark == nil {
		p.mark = p.turned
	}
	p.begin = p.r.Now()
	program.OnBackward(p.mark)
}

func (p *passTrace) turned() { p.backward = p.r.Now() }

// ended records the spans of the run.
func (p *passTrace) ended() {
	if p.begin == 0 {
		return
	}
	x := trace.Span{Kind: trace.Compute, Begin: p.begin, End: p.r.Now(), Step: p.r.Step(), Shard: p.device}
	if p.backward != 0 {
		forward := x
		forward.Kind, forward.End = trace.Forward, p.backward
		p.r.Add(forward)
		x.Kind, x.Begin = trace.Backward, p.backward
	}
	p.r.Add(x)
}

// A stepTrace records where the time of steps goes: the passes of each unit, and the waits of the
// training loop.
type stepTrace struct {
	// recorder is nil, which is never on, for a store without one.
	recorder *trace.Recorder
	passes   []passTrace
}

func newStepTrace(recorder *trace.Recorder, units []unit) stepTrace {
	s := stepTrace{recorder: recorder}
	for _, u := range units {
		s.passes = append(s.passes, passTrace{r: recorder, device: uint32(u.first)})
	}
	return s
}

func (s *stepTrace) on() bool { return s.recorder.On() }

// leastWait is the shortest wait that is recorded, in nanoseconds: most values are there when they
// are needed.
const leastWait = 10_000

// waited records that the training loop has waited since begin, in nanoseconds of the Recorder's
// clock, for the value of a key; empty: for no particular one.
func (s *stepTrace) waited(begin int64, key string) {
	r := s.recorder
	end := r.Now()
	if end-begin < leastWait {
		return
	}
	x := trace.Span{Kind: trace.Wait, Begin: begin, End: end, Step: r.Step()}
	if key != "" {
		x.Key = r.Name(key)
	}
	r.Add(x)
}

// span begins a span of the training loop. The function that it returns ends the span.
func (s *stepTrace) span(kind trace.Kind) func() {
	r := s.recorder
	if !r.On() {
		return func() {}
	}
	begin := r.Now()
	return func() { r.Add(trace.Span{Kind: kind, Begin: begin, End: r.Now(), Step: r.Step()}) }
}
