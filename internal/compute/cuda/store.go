package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A store is what the executors that share have on the device together, and what counts over all of
// their runs.
type store struct {
	gpu    *GPU
	users  []*Executor
	params mirrors
	grads  mirrors
	copies map[copyKey]drv.Ptr

	// bytes are those of copies.
	bytes int64

	// copyOrder is as they were made.
	copyOrder []sizedCopy

	states map[*plan.State]*state

	// stateOrder is by name.
	stateOrder []*state

	// stateHost is pinned. It has all running statistics, as stateDev has on the device.
	stateHost []byte
	stateDev  drv.Ptr

	// arena has temporaries, and what ops use while they run.
	arena sharedMemory

	// workspace is that of the libraries, within one op.
	workspace sharedMemory

	gradScale float32

	// step is the number of runs with gradients, by which dropout goes.
	step uint64

	// scaler is that of programs that make gradients; nil: there was none so far.
	scaler *scaler
}

// A copyKey is a parameter in a type and order that kernels multiply. K, C, RS and Lanes are of a
// convolution's weights; of others K is the number of numbers and the rest 0.
type copyKey struct {
	param    *float32
	typ      kernels.Type
	k, c, rs int
	lanes    int
}

// A sizedCopy is a copy with its size in bytes.
type sizedCopy struct {
	key   copyKey
	bytes int64
}

// A state is one batch normalisation's running mean and variance, one behind the other.
type state struct {
	name   string
	host   *plan.State
	offset int64
}

// newStore makes a store with the running statistics of a host, and without parameters: executors
// bring theirs when they join.
func newStore(g *GPU, host *plan.Host) (*store, error) {
	s := &store{gpu: g, gradScale: 1, copies: make(map[copyKey]drv.Ptr), states: make(map[*plan.State]*state),
		params: mirrors{gpu: g, what: "parameters", blocks: host.Blocks}, grads: mirrors{gpu: g, what: "gradients"}}
	var size int64
	for _, name := range slices.Sorted(maps.Keys(host.States)) {
		st := &state{name: name, host: host.States[name], offset: size}
		s.states[st.host] = st
		s.stateOrder = append(s.stateOrder, st)
		size += (int64(8*len(st.host.Mean)) + 63) / 64 * 64
	}
	if size == 0 {
		return s, nil
	}
	var err error
	if s.stateDev, err = g.malloc("running statistics", size); err != nil {
		return nil, err
	}
	if s.stateHost, err = g.context.HostAlloc(size); err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: pinned memory of %d bytes for running statistics: %w", size, err), s.close())
	}
	return s, nil
}

// mean and variance are where a state lies on the device.
func (s *store) mean(h *plan.State) drv.Ptr { return s.stateDev + drv.Ptr(s.states[h].offset) }
func (s *store) variance(h *plan.State) drv.Ptr {
	return s.mean(h) + drv.Ptr(4*len(h.Mean))
}

// statesUp copies the running statistics to the device, since the user may have changed them.
func (s *store) statesUp(stream drv.Stream) error {
	if s.stateDev == 0 {
		return nil
	}
	for _, st := range s.stateOrder {
		m := s.stateFloats(st)
		copy(m[copy(m, st.host.Mean):], st.host.Var)
	}
	return s.gpu.context.CopyToDevice(s.stateDev, unsafe.Pointer(&s.stateHost[0]), int64(len(s.stateHost)), stream)
}

// statesDown copies them back; statesLanded is called when that is done.
func (s *store) statesDown(stream drv.Stream) error {
	if s.stateDev == 0 {
		return nil
	}
	return s.gpu.context.CopyToHost(unsafe.Pointer(&s.stateHost[0]), s.stateDev, int64(len(s.stateHost)), stream)
}

// statesLanded moves the running statistics that have come down to the host's own memory. It is
// called at the end of a run: one that is broken off before leaves them as they were.
func (s *store) statesLanded() {
	for _, st := range s.stateOrder {
		m := s.stateFloats(st)
		copy(st.host.Var, m[copy(st.host.Mean, m):])
	}
}

func (s *store) stateFloats(st *state) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&s.stateHost[st.offset])), 2*len(st.host.Mean))
}

// copyOf is the device memory of a copy of a parameter, and whether it is new.
func (s *store) copyOf(key copyKey, bytes int64) (at drv.Ptr, err error) {
	if at, ok := s.copies[key]; ok {
		return at, nil
	}
	if at, err = s.gpu.malloc("copies of parameters", bytes); err != nil {
		return 0, err
	}
	s.copies[key] = at
	s.copyOrder, s.bytes = append(s.copyOrder, sizedCopy{key, bytes}), s.bytes+bytes
	return at, nil
}

// join adds an executor. It changes nothing else that others see.
func (s *store) join(e *Executor) error {
	if s.users = append(s.users, e); e.host.Grads == nil {
		return nil
	}
	for _, u := range s.users {
		if u != e && u.host.Grads != nil && (u.cfg.Update != nil || e.cfg.Update != nil) {
			return fmt.Errorf("cuda: an executor that changes parameters on %s cannot share with another one that makes gradients", s.gpu.Name())
		}
	}
	if s.scaler != nil {
		e.scaler = s.scaler
	}
	return nil
}

// leave takes an executor out, and gives the memory back with the last one.
func (s *store) leave(e *Executor) error {
	if s.users = slices.DeleteFunc(s.users, func(u *Executor) bool { return u == e }); len(s.users) > 0 {
		return nil
	}
	return s.close()
}

// mirrorGrads makes the mirrors of a host's gradients that are not there yet, with zeros.
func (s *store) mirrorGrads(host *plan.Host) error {
	s.grads.blocks = host.Blocks
	there := len(s.grads.list)
	for _, m := range host.Grads {
		if _, err := s.grads.span(m); err != nil {
			return err
		}
	}
	for _, m := range s.grads.list[there:] {
		if err := s.gpu.context.Memset8(m.device, 0, int64(len(m.host)), s.gpu.up); err != nil {
			return err
		}
	}
	return nil
}

// reset gives back what was made since it took as much as a usage says.
func (s *store) reset(to usage) error {
	errs := []error{s.params.shorten(to.paramMirrors), s.grads.shorten(to.gradMirrors)}
	for len(s.copyOrder) > to.copyCount {
		k := len(s.copyOrder) - 1
		c := s.copyOrder[k]
		errs = append(errs, s.gpu.context.Free(s.copies[c.key]))
		delete(s.copies, c.key)
		s.copyOrder, s.bytes = s.copyOrder[:k], s.bytes-c.bytes
	}
	return errors.Join(errs...)
}

// close gives all memory back. It is called when the last executor has left.
func (s *store) close() error {
	errs := []error{s.params.close(), s.grads.close(), s.arena.close(s.gpu), s.workspace.close(s.gpu)}
	for _, c := range s.copyOrder {
		errs = append(errs, s.gpu.context.Free(s.copies[c.key]))
	}
	clear(s.copies)
	s.copyOrder = nil
	if s.stateDev != 0 {
		errs = append(errs, s.gpu.context.Free(s.stateDev))
		s.stateDev = 0
	}
	if s.stateHost != nil {
		errs = append(errs, s.gpu.context.HostFree(s.stateHost))
		s.stateHost = nil
	}
	return errors.Join(errs...)
}
