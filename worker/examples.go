package worker

import "fmt"

// checkLast is an error if a program would refuse the last batch of this worker's share of the division: so that a run fails
// before its first step. It knows feeds that fill one device after the other, as ImageFeed does; Step checks what other feeds give.
func (r *run) checkLast() error {
	programs := r.trainer.cfg.Programs
	batch := programs[0].Batch()
	if r.divided == nil || r.over() || batch == 0 {
		return nil
	}
	n := r.divided.Used(r.rank, 1)
	if room := batch * len(programs); n == room {
		n = r.divided.Used(r.rank, r.cfg.Feed.Steps()) % room
	}
	rest := n
	for d, program := range programs {
		if err := program.CheckExamples(min(rest, batch)); err != nil {
			return fmt.Errorf("worker: epoch %d: the last batch of this worker has %d examples: device %d: %w", r.epoch, n, d, err)
		}
		rest -= min(rest, batch)
	}
	return nil
}
