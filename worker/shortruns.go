package worker

import (
	"fmt"

	"github.com/paragon-train/paragon/nn"
)

// checkShortRuns is an error if a program would refuse a short batch of this worker's share of the
// division: so that a run fails before its first step. It knows feeds that fill one device after
// the other, as ImageFeed does; Step checks what other feeds give.
func (d *division) checkShortRuns(programs []*nn.Program) error {
	batch := programs[0].Batch()
	if d.divided == nil || d.over() || batch == 0 {
		return nil
	}
	for _, n := range d.shortRuns(batch * len(programs)) {
		rest := n
		for device, program := range programs {
			if err := program.CheckExamples(min(rest, batch)); err != nil {
				return fmt.Errorf("worker: epoch %d: the last batch of this worker has %d examples: device %d: %w", d.pass, n, device, err)
			}
			rest -= min(rest, batch)
		}
	}
	return nil
}

// shortRuns are the numbers of examples of this worker's runs that may be short, where the devices
// have room for so many.
func (d *division) shortRuns(room int) []int {
	steps := d.feed.Steps()
	first, all := d.divided.Used(d.seat.rank, 1), d.divided.Used(d.seat.rank, steps)
	if feed, ok := d.divided.(BatchFeed); ok {
		last := all - d.divided.Used(d.seat.rank, steps-1)
		return append(runsOf(first, feed.PerRun()), runsOf(last, feed.PerRun())...)
	}
	if first == room {
		return []int{all % room}
	}
	return []int{first}
}
