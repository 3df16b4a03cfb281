package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// An input is the device's memory of one input of the plan.
type input struct {
	value  *plan.Value
	device drv.Ptr

	// float is the span of float32 numbers, which lie in a mirror.
	float span

	// ints are labels and row numbers. They are pinned.
	ints []int32

	// least and most are the bounds of those.
	least, most int

	// labels and ids say what ops read them as.
	labels, ids bool

	// what is "label of example" or "id at position".
	what string

	// pixels are in place of float32 numbers.
	pixels *pixels
}

// allocInts takes memory for labels or row numbers. They go to the device as int32, whatever type
// the user's have.
func (in *input) allocInts(g *GPU) error {
	n := int64(in.value.Len())
	var err error
	if in.device, err = g.malloc("inputs", 4*n); err != nil {
		return err
	}
	m, err := g.context.HostAlloc(4 * n)
	if err != nil {
		return errors.Join(fmt.Errorf("cuda: pinned memory of %d bytes for input %q: %w", 4*n, in.value.Name, err), g.context.Free(in.device))
	}
	in.ints = unsafe.Slice((*int32)(unsafe.Pointer(&m[0])), n)
	return nil
}

// take reads labels and row numbers from the user's memory, and checks them: a kernel could not say
// what is wrong. there is how many of them belong to examples; of the others, labels are −1 on the
// device and are not looked at.
func (in *input) take(data any, there int) error {
	switch {
	case !in.labels || there == len(in.ints):
		there = len(in.ints)
	case in.ids:
		return fmt.Errorf("cuda: input %q is read as labels and as ids; a batch of it cannot be short", in.value.Name)
	}
	switch d := data.(type) {
	case []int32:
		return takeInts(in, d, there)
	case []int64:
		return takeInts(in, d, there)
	case []int:
		return takeInts(in, d, there)
	case []float32:
		return takeInts(in, d, there)
	}
	return fmt.Errorf("cuda: input %q is %T, want int32, int64, int or float32", in.value.Name, data)
}

// takeInts is take for one type.
func takeInts[T int32 | int64 | int | float32](in *input, data []T, there int) error {
	for i, v := range data[:there] {
		n := int(v)
		if n < in.least || n > in.most {
			return fmt.Errorf("cuda: run %s %d is %d, want %d to %d", in.what, i, n, in.least, in.most)
		}
		in.ints[i] = int32(n)
	}
	for i := there; i < len(in.ints); i++ {
		in.ints[i] = -1
	}
	return nil
}

// up copies the input to the device.
func (in *input) up(g *GPU, s drv.Stream) error {
	switch {
	case in.ints != nil:
		return g.context.CopyToDevice(in.device, unsafe.Pointer(&in.ints[0]), int64(4*len(in.ints)), s)
	case in.pixels != nil:
		return in.pixels.up(g, s)
	case in.float.mirror != nil:
		return in.float.up(s)
	}

	// No op reads it.
	return nil
}

// close gives the memory back, but for that of float32 numbers, which is a mirror's.
func (in *input) close(c driver) error {
	var errs []error
	if in.ints != nil {
		errs = append(errs, c.Free(in.device), c.HostFree(unsafe.Slice((*byte)(unsafe.Pointer(&in.ints[0])), 4*len(in.ints))))
	}
	if in.pixels != nil {
		errs = append(errs, in.pixels.close(c))
	}
	*in = input{}
	return errors.Join(errs...)
}
