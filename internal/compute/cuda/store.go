package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/cuda/drv"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// A store is the parameters and running statistics of the executors that share them, on the device.
type store struct {
	gpu    *GPU
	shares int // executors
	params mirrors
	copies map[copyKey]drv.Ptr
	bytes  int64 // of copies

	states     map[*plan.State]*state
	stateOrder []*state // by name
	stateHost  []byte   // pinned, of all of them
	stateDev   drv.Ptr
}

// A copyKey is a parameter in a type and order that kernels multiply. K, C, RS and Lanes are of a convolution's weights; of others K
// is the number of numbers and the rest 0.
type copyKey struct {
	param    *float32
	typ      kernels.Type
	k, c, rs int
	lanes    int
}

// A state is one batch normalisation's running mean and variance, one behind the other.
type state struct {
	name   string
	host   *plan.State
	offset int64
}

func newStore(g *GPU, host *plan.Host) (*store, error) {
	s := &store{gpu: g, shares: 1, params: mirrors{gpu: g, what: "parameters", blocks: host.Blocks}, copies: make(map[copyKey]drv.Ptr), states: make(map[*plan.State]*state)}
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
	s.bytes += bytes
	return at, nil
}

// release gives the memory back with the last executor.
func (s *store) release() error {
	if s.shares--; s.shares > 0 {
		return nil
	}
	return s.close()
}

func (s *store) close() error {
	errs := []error{s.params.close()}
	for _, key := range slices.SortedFunc(maps.Keys(s.copies), func(a, b copyKey) int { return cmp.Compare(s.copies[a], s.copies[b]) }) {
		errs = append(errs, s.gpu.context.Free(s.copies[key]))
	}
	clear(s.copies)
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
