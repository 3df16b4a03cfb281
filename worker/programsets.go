package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/paragon-train/paragon/nn"
)

// programSets are the programs that a worker has, by the batch of a device: one for each device,
// which share parameters with the trainer's. They are compiled between two steps, since programs
// that share memory do not run meanwhile.
type programSets struct {
	// build is AdaptConfig.Program, or nil.
	build  func(device, batch int) (*nn.Program, error)
	on     *devices
	feed   BatchFeed
	logger *slog.Logger
	// base is the batch of the trainer's own programs.
	base int
	sets map[int][]*nn.Program
	// used are batches in the order of their last use, without base.
	used []int
	// failed are batches that could not be compiled.
	failed map[int]bool
}

// keptPrograms is how many sizes stay besides the trainer's own: the last ones that were used.
const keptPrograms = 4

// newProgramSets has the devices' own programs. Where these do not know their batch, the feed does.
func newProgramSets(build func(device, batch int) (*nn.Program, error), on *devices, feed BatchFeed, logger *slog.Logger) *programSets {
	p := &programSets{build: build, on: on, feed: feed, logger: logger, base: on.own[0].Batch(), failed: map[int]bool{}}
	if p.base == 0 {
		p.base = p.deviceBatch(feed.PerRun())
	}
	p.sets = map[int][]*nn.Program{p.base: on.own}
	return p
}

// devices is their number.
func (p *programSets) devices() int { return len(p.on.own) }

// may reports whether other sizes can be compiled. GPUs that are joined keep their programs.
func (p *programSets) may() bool { return p.build != nil && p.on.group == nil }

// most is the largest local batch that can be asked for.
func (p *programSets) most() int {
	most := maxLocalBatch / p.devices()
	if !p.may() {
		most = p.base
	}
	for batch := range p.failed {
		if batch > p.base {
			most = min(most, batch-1)
		}
	}
	return max(most, p.base) * p.devices()
}

// deviceBatch is what a device needs for a run of so many examples.
func (p *programSets) deviceBatch(local int) int { return (local-1)/p.devices() + 1 }

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

// compile compiles the programs for a local batch if it does not have them. That they cannot be
// compiled is no error: training goes on with those that there are.
func (p *programSets) compile(local int) error {
	size := p.sizeFor(local)
	if p.sets[size] != nil || p.failed[size] {
		return nil
	}
	var programs []*nn.Program
	for d := range p.devices() {
		program, err := p.compileOn(d, size)
		if program != nil {
			programs = append(programs, program)
		}
		if err != nil {
			p.failed[size] = true
			p.logger.Error("cannot compile programs for another batch size; training continues with the existing ones", "batch of a device", size, "device", d, "sizes", p.sizes(), "error", err)
			return closeAll(programs)
		}
	}
	m := programs[0].Memory()
	p.logger.Info("compiled programs for another batch size", "batch of a device", size, "devices", p.devices(), "bytes", m.Total(), "of these between operations, shared", m.Arena, "sizes before", p.sizes())
	p.sets[size] = programs
	return nil
}

// compileOn compiles a device's program. One that does not fit the device comes back with the
// error.
func (p *programSets) compileOn(device, size int) (*nn.Program, error) {
	program, err := p.build(device, size)
	switch {
	case err != nil:
		return nil, err
	case program == nil:
		return nil, errors.New("AdaptConfig.Program returned nil")
	}
	return program, p.on.fits(device, program, size)
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
	if err := p.useSet(p.sets[size]); err != nil {
		return err
	}
	if err := p.feed.Use(p.sets[size], min(local, size*p.devices())); err != nil {
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

// useSet makes the next runs with a set of programs.
func (p *programSets) useSet(programs []*nn.Program) error {
	if err := p.on.use(programs); err != nil {
		return fmt.Errorf("worker: use: %w", err)
	}
	return nil
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
	errs := []error{p.useSet(p.sets[p.base])}
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
