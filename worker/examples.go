package worker

import "fmt"

// checkShortRuns is an error if a program would refuse a short batch of this worker's share of the
// division: so that a run fails before its first step. It knows feeds that fill one device after
// the other, as ImageFeed does; Step checks what other feeds give.
func (r *run) checkShortRuns() error {
	programs := r.trainer.devices.programs
	batch := programs[0].Batch()
	if r.division.divided == nil || r.division.over() || batch == 0 {
		return nil
	}
	for _, n := range r.division.shortRuns(batch * len(programs)) {
		rest := n
		for d, program := range programs {
			if err := program.CheckExamples(min(rest, batch)); err != nil {
				return fmt.Errorf("worker: epoch %d: the last batch of this worker has %d examples: device %d: %w", r.division.pass, n, d, err)
			}
			rest -= min(rest, batch)
		}
	}
	return nil
}
