package worker

// observers are FitConfig.Observers. Each is told of everything in order, by Fit's goroutine.
type observers []Observer

func (list observers) begin(run Run) {
	for _, o := range list {
		o.Begin(run)
	}
}

func (list observers) step(step StepInfo) {
	for _, o := range list {
		o.Step(step)
	}
}

func (list observers) evaluated(epoch int, e Evaluation) {
	for _, o := range list {
		if o, ok := o.(EvaluationObserver); ok {
			o.Evaluated(epoch, e)
		}
	}
}

func (list observers) membership(change MembershipInfo) {
	for _, o := range list {
		if o, ok := o.(MembershipObserver); ok {
			o.Membership(change)
		}
	}
}

func (list observers) epoch(epoch EpochInfo) {
	for _, o := range list {
		o.Epoch(epoch)
	}
}

func (list observers) end() {
	for _, o := range list {
		o.End()
	}
}
