package kvstore

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// SetShape sets the shape of a dense key's tensor.
func (s *initialiser) SetShape(key string, shape ...int) error {
	k, err := s.keys.lookup("set shape", key, wire.FormDense)
	if err != nil {
		return err
	}
	if err := checkShape(shape, uint64(k.size)); err != nil {
		return keyError("set shape", key, ErrSize, "%v", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !sameShape(k.shape, shape) {
		return keyError("set shape", key, ErrSize, "got %v, want %v as set before", shape, k.shape)
	}
	// The copy is not nil, even for a scalar: nil means not known.
	k.learnShape(append([]int{}, shape...))
	return nil
}

// maxDims bounds the dimensions of a shape from a file; no model has tensors with as many.
const maxDims = 64

// checkShape checks that a shape has size values.
func checkShape(shape []int, size uint64) error {
	if len(shape) > maxDims {
		return fmt.Errorf("got a shape of %d dimensions, want at most %d", len(shape), maxDims)
	}
	n := uint64(1)
	for _, d := range shape {
		if d < 1 || n > math.MaxInt64/uint64(d) {
			return fmt.Errorf("got the shape %v, want one of %d values", shape, size)
		}
		n *= uint64(d)
	}
	if n != size {
		return fmt.Errorf("got the shape %v of %d values, want one of %d", shape, n, size)
	}
	return nil
}

// sameShape reports whether two shapes of a key agree. A nil shape, which is not known, and one
// with a single dimension agree with any.
func sameShape(a, b []int) bool {
	return a == nil || b == nil || len(a) == 1 || len(b) == 1 || slices.Equal(a, b)
}

// shapeOf returns the key's shape; nil: not known.
func (k *key) shapeOf() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shape
}

// takeShape sets the shape found in a loaded file.
func (k *key) takeShape(shape []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.learnShape(shape)
}

// learnShape sets the shape, which agrees with the known one, unless it has a single dimension and
// the known one has more. The caller holds mu.
func (k *key) learnShape(shape []int) {
	if shape != nil && (k.shape == nil || len(shape) != 1) {
		k.shape = shape
	}
}

// checkShape compares the shape of a saved key with its number of values, and with the shape of the
// key here, if there is one.
func (x *savedKey) checkShape(here *key) error {
	if x.Shape == nil {
		return nil
	}
	if x.Form != "dense" {
		return errors.New("got a shape for a key of rows, want none")
	}
	if err := checkShape(x.Shape, x.Size); err != nil {
		return err
	}
	if here == nil {
		return nil
	}
	if have := here.shapeOf(); !sameShape(have, x.Shape) {
		return fmt.Errorf("%w: the file holds the shape %v, want %v", ErrSize, x.Shape, have)
	}
	return nil
}
