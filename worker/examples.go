package worker

import "fmt"

// checkLast is an error if a program would refuse a short batch of this worker's share of the
// division: so that a run fails before its first step. It knows feeds that fill one device after
// the other, as ImageFeed does; Step checks what other feeds give.
func (r *run) checkLast() error {
	programs := r.trainer.devices.programs
	batch := programs[0].Batch()
	if r.divided == nil || r.over() || batch == 0 {
		return nil
	}
	for _, n := range r.sizes(batch * len(programs)) {
		rest := n
		for d, program := range programs {
			if err := program.CheckExamples(min(rest, batch)); err != nil {
				return fmt.Errorf("worker: epoch %d: the last batch of this worker has %d examples: device %d: %w", r.epoch, n, d, err)
			}
			rest -= min(rest, batch)
		}
	}
	return nil
}

// sizes are the numbers of examples of this worker's runs that may be short, where the devices have
// room for so many.
func (r *run) sizes(room int) []int {
	first, all := r.divided.Used(r.rank, 1), r.divided.Used(r.rank, r.cfg.Feed.Steps())
	if feed, ok := r.divided.(BatchFeed); ok {
		last := all - r.divided.Used(r.rank, r.cfg.Feed.Steps()-1)
		return append(runsOf(first, feed.PerRun()), runsOf(last, feed.PerRun())...)
	}
	if first == room {
		return []int{all % room}
	}
	return []int{first}
}
