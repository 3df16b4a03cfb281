package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/shm"
)

// A mirror is float32 memory of the host with as much on the device for it, each number at the same
// offset.
//
// The host's memory is pinned, so that the device copies from and to it by itself; where the driver
// refuses that, numbers go through pinned memory of the mirror's own.
type mirror struct {
	gpu  *GPU
	host []byte

	// ends is where numbers come from and go to: the host's, or in a Group the first member's.
	ends []byte

	device drv.Ptr

	// stage is nil if ends is pinned.
	stage []byte

	// pinned says that this mirror has pinned it.
	pinned bool
}

// newMirror pins host and takes memory of the device. It is called on the device's thread, as all
// that is here.
func newMirror(g *GPU, what string, host []float32) (*mirror, error) {
	m := &mirror{gpu: g, host: unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(host))), 4*len(host))}
	m.ends = m.host
	var err error
	if m.device, err = g.malloc(what, int64(len(m.host))); err != nil {
		return nil, err
	}
	if len(m.host) >= pinLeast {
		err = g.context.HostRegister(m.host)
		if m.pinned = err == nil; m.pinned || already(err) {
			shm.Pinned(m.host)
			return m, nil
		}
		if g.warn != nil {
			g.warn("memory is not pinned where it lies, and its numbers go through a copy", "device", g.Name(), "of", what, "bytes", len(m.host), "error", err)
		}
	}
	if m.stage, err = g.context.HostAlloc(int64(len(m.host))); err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: pinned memory of %d bytes for %s: %w", len(m.host), what, err), m.close())
	}
	return m, nil
}

// pinLeast is the size from which memory is pinned where it lies: whole pages, of which others have
// no part worth mentioning.
const pinLeast = 64 << 10

// already is true if another program has pinned the memory.
func already(err error) bool {
	var e *drv.Error
	return errors.As(err, &e) && e.Code == errorAlreadyRegistered
}

const errorAlreadyRegistered = 712 // CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED

// A span is a piece of a mirror, in bytes.
type span struct {
	mirror  *mirror
	from, n int64
}

// up copies the piece to the device.
func (p span) up(s drv.Stream) error {
	m, src := p.mirror, p.mirror.ends
	if m.stage != nil {
		src = m.stage
		copy(src[p.from:p.from+p.n], m.ends[p.from:p.from+p.n])
	}
	return m.gpu.context.CopyToDevice(m.device+drv.Ptr(p.from), unsafe.Pointer(&src[p.from]), p.n, s)
}

// down copies the piece to the host; landed is called when that is done.
func (p span) down(s drv.Stream) error {
	dst := p.mirror.ends
	if p.mirror.stage != nil {
		dst = p.mirror.stage
	}
	return p.mirror.gpu.context.CopyToHost(unsafe.Pointer(&dst[p.from]), p.mirror.device+drv.Ptr(p.from), p.n, s)
}

// landed moves what has come down to the host's own memory, where it went through a stage.
func (p span) landed() {
	if m := p.mirror; m.stage != nil {
		copy(m.ends[p.from:p.from+p.n], m.stage[p.from:])
	}
}

// hostBytes is what the mirror takes of the host's memory besides the memory mirrored.
func (m *mirror) hostBytes() int64 { return int64(len(m.stage)) }

// close gives the device's memory back and lets go of the host's. It may be called twice.
func (m *mirror) close() error {
	var errs []error
	if m.device != 0 {
		errs = append(errs, m.gpu.context.Free(m.device))
	}
	if m.stage != nil {
		errs = append(errs, m.gpu.context.HostFree(m.stage))
	}
	if m.pinned {
		errs = append(errs, m.gpu.context.HostUnregister(m.host))
	}
	*m = mirror{gpu: m.gpu}
	return errors.Join(errs...)
}

// mirrors finds the mirror of any slice, and makes it: one for each block, and one for each slice
// that lies in no block.
type mirrors struct {
	gpu    *GPU
	what   string
	blocks [][]float32
	list   []*mirror
}

// span is where x lies.
func (ms *mirrors) span(x []float32) (span, error) {
	at, n := uintptr(unsafe.Pointer(unsafe.SliceData(x))), int64(4*len(x))
	within := func(begin unsafe.Pointer, bytes int) bool {
		return uintptr(begin) <= at && at+uintptr(n) <= uintptr(begin)+uintptr(bytes)
	}
	for _, m := range ms.list {
		if begin := unsafe.Pointer(unsafe.SliceData(m.host)); within(begin, len(m.host)) {
			return span{m, int64(at - uintptr(begin)), n}, nil
		}
	}
	memory := x
	for _, b := range ms.blocks {
		if within(unsafe.Pointer(unsafe.SliceData(b)), 4*len(b)) {
			memory = b
		}
	}
	m, err := newMirror(ms.gpu, ms.what, memory)
	if err != nil {
		return span{}, err
	}
	ms.list = append(ms.list, m)
	return ms.span(x)
}

// where is where x, which has a mirror already, lies on the device.
func (ms *mirrors) where(x []float32) drv.Ptr {
	p, err := ms.span(x)
	if err != nil {
		// build makes all of them.
		panic(fmt.Sprintf("cuda: memory without a mirror: %v", err))
	}
	return p.mirror.device + drv.Ptr(p.from)
}

// shorten closes all mirrors but the first n.
func (ms *mirrors) shorten(n int) error {
	var errs []error
	for _, m := range ms.list[n:] {
		errs = append(errs, m.close())
	}
	ms.list = ms.list[:n]
	return errors.Join(errs...)
}

func (ms *mirrors) close() error { return ms.shorten(0) }

// bytes is what the mirrors take of the device.
func (ms *mirrors) bytes() (device, host int64) {
	for _, m := range ms.list {
		device += int64(len(m.host))
		host += m.hostBytes()
	}
	return device, host
}

// joined merges neighbouring spans. The gap between two may be less than a cache line of unused
// memory.
func joined(spans []span, order func(m *mirror) int) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(order(a.mirror), order(b.mirror)), cmp.Compare(a.from, b.from))
	})
	var out []span
	for _, p := range spans {
		if k := len(out) - 1; k >= 0 && out[k].mirror == p.mirror && p.from-(out[k].from+out[k].n) < 64 {
			out[k].n = max(out[k].n, p.from+p.n-out[k].from)
			continue
		}
		out = append(out, p)
	}
	return out
}

// order is a mirror's place in the list.
func (ms *mirrors) order(m *mirror) int { return slices.Index(ms.list, m) }

// malloc takes memory of the device; the error says what for, and what there is.
func (g *GPU) malloc(what string, bytes int64) (drv.Ptr, error) {
	if bytes == 0 {
		return 0, nil
	}
	p, err := g.context.Malloc(bytes)
	if err != nil {
		free, total, infoErr := g.context.MemInfo()
		if infoErr != nil {
			return 0, fmt.Errorf("cuda: %d bytes for %s on %s: %w", bytes, what, g.Name(), err)
		}
		return 0, fmt.Errorf("cuda: %d bytes for %s on %s, of whose %d bytes %d are free: %w", bytes, what, g.Name(), total, free, err)
	}
	return p, nil
}
