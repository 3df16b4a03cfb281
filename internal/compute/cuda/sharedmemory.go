package cuda

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A sharedMemory is memory of the device that holds nothing between two runs, as large as the
// largest of the executors that share needs.
type sharedMemory struct {
	device drv.Ptr
	size   int64
}

// larger is memory of at least some bytes: r itself if it is large enough.
func (r sharedMemory) larger(g *GPU, what string, bytes int64) (sharedMemory, error) {
	if bytes <= r.size {
		return r, nil
	}
	if r.size > 0 {
		what = fmt.Sprintf("%s, beside the %d of programs that it shares with", what, r.size)
	}
	device, err := g.malloc(what, bytes)
	return sharedMemory{device, bytes}, err
}

func (r sharedMemory) close(g *GPU) error {
	if r.device == 0 {
		return nil
	}
	return g.context.Free(r.device)
}

// grow makes arena and workspace at least so large, lets build make what needs them, and moves the
// other executors to them. After an error everything is as it was.
func (s *store) grow(arena, workspace int64, e *Executor, build func() error) error {
	was := [2]sharedMemory{s.arena, s.workspace}
	var err error
	if s.arena, err = s.arena.larger(s.gpu, "values between operations", arena); err != nil {
		s.arena = was[0]
		return err
	}
	if s.workspace, err = s.workspace.larger(s.gpu, "workspace of the libraries", workspace); err != nil {
		s.workspace = was[1]
		return errors.Join(err, s.back(was))
	}
	if err = build(); err != nil {
		return errors.Join(err, s.back(was))
	}
	if s.arena == was[0] && s.workspace == was[1] {
		return nil
	}
	var moves []move
	for _, other := range s.users {
		if other == e {
			continue
		}
		m, err := other.prepareMove()
		moves = append(moves, m)
		if err == nil {
			continue
		}
		errs := []error{err, s.back(was)}
		for _, m := range moves {
			errs = append(errs, m.undo())
		}
		return errors.Join(errs...)
	}
	var errs []error
	for _, m := range moves {
		errs = append(errs, m.finish())
	}
	for i, now := range []sharedMemory{s.arena, s.workspace} {
		if now != was[i] {
			errs = append(errs, was[i].close(s.gpu))
		}
	}
	return errors.Join(errs...)
}

// back returns to the memory that was.
func (s *store) back(was [2]sharedMemory) error {
	var errs []error
	for i, r := range []*sharedMemory{&s.arena, &s.workspace} {
		if *r != was[i] {
			errs = append(errs, r.close(s.gpu))
			*r = was[i]
		}
	}
	return errors.Join(errs...)
}

// A move is an executor's change to other memory.
type move struct {
	e *Executor

	// was are the schedules that it had.
	was schedules
}

// prepareMove makes the executor's launches and schedules anew, for the memory that there is now,
// and keeps the old schedules.
func (e *Executor) prepareMove() (move, error) {
	m := move{e, e.schedules}
	e.schedules = schedules{}
	e.bind()
	return m, e.makeSchedules()
}

// finish closes the old schedules.
func (m move) finish() error {
	m.e.fresh.replaced(m.was, m.e.schedules)
	return m.was.close(m.e.gpu)
}

// undo goes back to the old schedules, when the memory is the old one again.
func (m move) undo() error {
	e := m.e
	err := e.schedules.close(e.gpu)
	e.schedules = m.was
	e.bind()
	return err
}

// A usage is what a store has taken, in bytes, and in numbers of things, to go back to.
type usage struct {
	params, grads, copies, arena, workspace, host int64

	paramMirrors, gradMirrors, copyCount int
}

func (s *store) usage() usage {
	u := usage{copies: s.bytes + int64(len(s.stateHost)), arena: s.arena.size, workspace: s.workspace.size,
		paramMirrors: len(s.params.list), gradMirrors: len(s.grads.list), copyCount: len(s.copyOrder)}
	var params, grads int64
	u.params, params = s.params.bytes()
	u.grads, grads = s.grads.bytes()
	u.host = params + grads + int64(len(s.stateHost))
	return u
}
