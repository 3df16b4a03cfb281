package kernels

import (
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// DryRun is a Set for a device without hardware, with this many multiprocessors: it calls f with
// each launch.
func DryRun(sms int, f func(Launch)) *Set {
	k := &Set{device: &dryRun{next: 1 << 32}, sms: sms, functions: make(map[string]drv.Function), trace: f}
	for i, name := range names() {
		k.functions[name] = drv.Function(i + 1)
	}
	return k
}

// dryRun takes launches and gives addresses of memory that is not there.
type dryRun struct{ next drv.Ptr }

func (p *dryRun) Launch(drv.Function, [3]uint32, [3]uint32, uint32, drv.Stream, []byte) error {
	return nil
}

func (p *dryRun) Malloc(bytes int64) (drv.Ptr, error) {
	at := p.next
	p.next += drv.Ptr((bytes + 255) / 256 * 256)
	return at, nil
}

func (p *dryRun) Free(drv.Ptr) error                                            { return nil }
func (p *dryRun) HostAlloc(bytes int64) ([]byte, error)                         { return make([]byte, bytes), nil }
func (p *dryRun) HostFree([]byte) error                                         { return nil }
func (p *dryRun) CopyToDevice(drv.Ptr, unsafe.Pointer, int64, drv.Stream) error { return nil }
func (p *dryRun) Synchronize(drv.Stream) error                                  { return nil }
