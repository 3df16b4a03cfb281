package worker

// epochs say where a run is in its epochs.
//
// An adapting run goes through passes over the data, which scheduler and sampler call epochs, and
// through epochs of progress, which users see. Without Adapt the two are the same.
type epochs struct {
	division *division
	// adapt is nil where a pass is an epoch.
	adapt *adaptation
}

// number is that of the current epoch.
func (e *epochs) number() int {
	if e.adapt != nil {
		return e.adapt.epochs.finished
	}
	return e.division.pass
}

// step is the next step within the epoch.
func (e *epochs) step() int {
	if e.adapt != nil {
		return e.adapt.epochs.step
	}
	return e.division.stepOfPass()
}

// steps is how many steps the epoch has, as far as is known.
func (e *epochs) steps() int {
	if e.adapt != nil {
		return e.adapt.stepsOfEpoch(e.division.seat.workers)
	}
	return e.division.before + e.division.feed.Steps()
}

// over reports whether all steps of the epoch are done.
func (e *epochs) over() bool {
	if e.adapt != nil {
		return e.adapt.epochDone()
	}
	return e.division.over()
}

// span is the span that begins with the next step.
func (e *epochs) span() Span {
	s := Span{Epoch: e.number(), First: e.step(), Workers: e.division.seat.workers}
	if e.adapt != nil {
		s.Batch = e.adapt.batch.perStep() * s.Workers
	}
	return s
}

// divide gives the feed the division, if it has another one.
func (e *epochs) divide() error {
	perStep := 0
	if e.adapt != nil {
		perStep = e.adapt.batch.perStep()
	}
	return e.division.divide(perStep)
}

// progressed is the progress before and after the newest of so many steps: in steps, or
// scale-invariant ones. It is kept from before the step, since what is there now less the step's
// gain is not always the same bits.
func (e *epochs) progressed(steps uint64) (before, now float64) {
	if e.adapt != nil {
		return e.adapt.scaling.newest.before, e.adapt.scaling.progress.Steps
	}
	return float64(steps) - 1, float64(steps)
}

// measure adds what was measured of the newest of so many steps, whose exchanges have all returned.
func (e *epochs) measure(steps uint64) {
	if e.adapt != nil {
		e.adapt.scaling.measure(steps)
	}
}

// next moves on to the next epoch. An epoch of progress may end in the middle of a pass.
func (e *epochs) next() {
	if e.adapt == nil {
		e.nextPass()
		return
	}
	e.adapt.nextEpoch()
	if e.division.over() {
		e.nextPass()
	}
}

// nextPass moves on to the start of the next pass over the data.
func (e *epochs) nextPass() { e.division.nextPass(e.adapt != nil) }
