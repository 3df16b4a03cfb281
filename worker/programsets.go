package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/nn"
)

// programSets are the programs that a worker has, by the batch of a device: one for each device,
// which share parameters with the trainer's. They are compiled between two steps, since programs
// that share memory do not run meanwhile.
type programSets struct {
	a       *adaptation
	devices int
	base    int // batch of the trainer's own
	sets    map[int][]*nn.Program
	used    []int        // batches in the order of their last use, but the base
	failed  map[int]bool // batches that could not be compiled
}

// keptPrograms is how many sizes stay besides the trainer's own: the last ones that were used.
const keptPrograms = 4

func newProgramSets(a *adaptation) *programSets {
	own := a.trainer.cfg.Programs
	p := &programSets{a: a, devices: len(own), base: own[0].Batch(), failed: map[int]bool{}}
	if p.base == 0 { // the programs do not know; the feed does
		p.base = p.deviceBatch(a.feed.PerRun())
	}
	p.sets = map[int][]*nn.Program{p.base: own}
	return p
}

// may reports whether other sizes can be compiled.
func (p *programSets) may() bool { return p.a.cfg.Program != nil && p.a.trainer.devices.group == nil }

// most is the largest local batch that can be asked for.
func (p *programSets) most() int {
	most := maxLocalBatch / p.devices
	if !p.may() {
		most = p.base
	}
	for batch := range p.failed {
		if batch > p.base {
			most = min(most, batch-1)
		}
	}
	return max(most, p.base) * p.devices
}

// deviceBatch is what a device needs for a run of so many examples.
func (p *programSets) deviceBatch(local int) int { return (local-1)/p.devices + 1 }

// sizeFor is the batch of the programs that fit: sizes are 2ⁿ and 3·2ⁿ, and that of the trainer's
// own, so there are few of them, and at most a third of the rows is padding.
func (p *programSets) sizeFor(local int) int {
	need := p.deviceBatch(local)
	size := sizeAbove(need)
	if !p.may() || p.base >= need && p.base <= size {
		return p.base
	}
	return size
}

// sizeAbove is the least 2ⁿ or 3·2ⁿ that is at least n.
func sizeAbove(n int) int {
	for two := 1; ; two *= 2 {
		if two >= n {
			return two
		}
		if three := two / 2 * 3; three >= n {
			return three
		}
	}
}

// compile compiles the programs for a local batch if it does not have them.
func (p *programSets) compile(local int) error {
	size := p.sizeFor(local)
	if p.sets[size] != nil || p.failed[size] {
		return nil
	}
	var programs []*nn.Program
	for d := range p.devices {
		program, err := p.a.cfg.Program(d, size)
		if err == nil && program == nil {
			err = errors.New("AdaptConfig.Program returned nil")
		}
		if err == nil {
			programs = append(programs, program)
			err = p.a.trainer.devices.fits(d, program, size)
		}
		if err != nil {
			p.failed[size] = true
			p.a.trainer.cfg.Logger.Error("cannot compile programs for another batch size; training continues with the existing ones", "batch of a device", size, "device", d, "sizes", p.sizes(), "error", err)
			return closeAll(programs)
		}
	}
	m := programs[0].Memory()
	p.a.trainer.cfg.Logger.Info("compiled programs for another batch size", "batch of a device", size, "devices", p.devices, "bytes", m.Total(), "of these between operations, shared", m.Arena, "sizes before", p.sizes())
	p.sets[size] = programs
	return nil
}

// use takes the programs for runs of a local batch: those that hold it, else the largest, and then
// runs are smaller and more.
func (p *programSets) use(local int) error {
	if err := p.compile(local); err != nil {
		return err
	}
	size, need := p.base, p.deviceBatch(local)
	for s := range p.sets {
		if s >= need && (size < need || s < size) || s < need && s > size {
			size = s
		}
	}
	if err := p.a.trainer.Use(p.sets[size]); err != nil {
		return err
	}
	if err := p.a.feed.Use(p.sets[size], min(local, size*p.devices)); err != nil {
		return fmt.Errorf("worker: runs of %d examples: %w", local, err)
	}
	if size != p.base {
		p.used = append(slices.DeleteFunc(p.used, func(s int) bool { return s == size }), size)
	}
	if len(p.used) <= keptPrograms {
		return nil
	}
	old := p.used[0]
	p.used = slices.Delete(p.used, 0, 1)
	dropped := p.sets[old]
	delete(p.sets, old)
	return closeAll(dropped)
}

// sizes are those that there are, rising.
func (p *programSets) sizes() (list []int) {
	for s := range p.sets {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// close returns to the trainer's own programs and closes the others.
func (p *programSets) close() error {
	errs := []error{p.a.trainer.Use(p.sets[p.base])}
	for _, size := range p.sizes() {
		if size != p.base {
			errs = append(errs, closeAll(p.sets[size]))
			delete(p.sets, size)
		}
	}
	return errors.Join(errs...)
}

func closeAll(programs []*nn.Program) error {
	var errs []error
	for _, program := range programs {
		errs = append(errs, program.Close())
	}
	return errors.Join(errs...)
}
