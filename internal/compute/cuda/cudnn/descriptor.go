package cudnn

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// A descriptor is a cudnnBackendDescriptor_t.
type descriptor uintptr

func (a attribute) String() string { return nameOr(attributeNames, a, "cudnnBackendAttributeName_t") }

func (t descriptorType) String() string {
	return nameOr(descriptorNames, t, "cudnnBackendDescriptorType_t")
}

func (t attributeType) String() string {
	return nameOr(attributeTypeNames, t, "cudnnBackendAttributeType_t")
}

func nameOr[T ~int32](names map[T]string, value T, kind string) string {
	if name, ok := names[value]; ok {
		return name
	}
	return fmt.Sprintf("%s %d", kind, int32(value))
}

// create makes an empty descriptor. what is for errors.
func (h *Handle) create(t descriptorType, what string) (descriptor, error) {
	h.mem.words[0] = 0
	if status := Status(h.caller.Call(h.fn.createDescriptor, uintptr(t), uintptr(unsafe.Pointer(&h.mem.words[0])))); status != 0 {
		return 0, h.failed("cudnnBackendCreateDescriptor", fmt.Sprintf("%v of %s", t, what), status)
	}
	return descriptor(h.mem.words[0]), nil
}

func (h *Handle) destroy(d descriptor) error {
	if d == 0 {
		return nil
	}
	if status := Status(h.caller.Call(h.fn.destroyDescriptor, uintptr(d))); status != 0 {
		return h.failed("cudnnBackendDestroyDescriptor", fmt.Sprintf("descriptor %#x", uintptr(d)), status)
	}
	return nil
}

func (h *Handle) finalize(d descriptor, t descriptorType, what string) error {
	if status := Status(h.caller.Call(h.fn.finalize, uintptr(d))); status != 0 {
		return h.failed("cudnnBackendFinalize", fmt.Sprintf("%v of %s", t, what), status)
	}
	if h.trace != nil {
		h.trace(fmt.Sprintf("finalize %v", t))
	}
	return nil
}

// set gives an attribute the first n elements of h.mem.words, whose layout is that of t.
func (h *Handle) set(d descriptor, a attribute, t attributeType, n int, what string) error {
	status := Status(h.caller.Call(h.fn.setAttribute, uintptr(d), uintptr(a), uintptr(t), uintptr(n), uintptr(unsafe.Pointer(&h.mem.words[0]))))
	if status != 0 {
		return h.failed("cudnnBackendSetAttribute", fmt.Sprintf("%v, %d of %v, of %s", a, n, t, what), status)
	}
	return nil
}

// setTraced is set with a line for the trace. Addresses differ from run to run, so of them it has
// the number alone.
func (h *Handle) setTraced(d descriptor, a attribute, t attributeType, n int, what string, values func() string) error {
	if h.trace != nil {
		h.trace(fmt.Sprintf("%v %v ×%d = %s", a, t, n, values()))
	}
	return h.set(d, a, t, n, what)
}

// setInts sets 64-bit elements: INT64, and pointers.
func (h *Handle) setInts(d descriptor, a attribute, t attributeType, what string, values ...int64) error {
	if len(values) > maxWords {
		return fmt.Errorf("cudnn: set %v of %s: got %d values, want at most %d", a, what, len(values), maxWords)
	}
	for i, v := range values {
		h.mem.words[i] = uint64(v)
	}
	return h.setTraced(d, a, t, len(values), what, func() string {
		if t != typeInt64 {
			return "addresses"
		}
		return strings.Trim(fmt.Sprint(values), "[]")
	})
}

// setEnum sets one 32-bit element: an enumeration, of which data types and modes are examples.
func (h *Handle) setEnum(d descriptor, a attribute, t attributeType, what string, value int32) error {
	*(*int32)(unsafe.Pointer(&h.mem.words[0])) = value
	return h.setTraced(d, a, t, 1, what, func() string { return fmt.Sprint(value) })
}

// setBool sets one 8-bit element.
func (h *Handle) setBool(d descriptor, a attribute, what string, value bool) error {
	*(*bool)(unsafe.Pointer(&h.mem.words[0])) = value
	return h.setTraced(d, a, typeBoolean, 1, what, func() string { return fmt.Sprint(value) })
}

// setFloat sets one float32.
func (h *Handle) setFloat(d descriptor, a attribute, what string, value float32) error {
	*(*uint32)(unsafe.Pointer(&h.mem.words[0])) = math.Float32bits(value)
	return h.setTraced(d, a, typeFloat, 1, what, func() string { return fmt.Sprint(value) })
}

// setDouble sets one float64.
func (h *Handle) setDouble(d descriptor, a attribute, what string, value float64) error {
	h.mem.words[0] = math.Float64bits(value)
	return h.setTraced(d, a, typeDouble, 1, what, func() string { return fmt.Sprint(value) })
}

// setDescriptors sets an array of descriptors.
func (h *Handle) setDescriptors(d descriptor, a attribute, what string, values ...descriptor) error {
	if len(values) > maxWords {
		return fmt.Errorf("cudnn: set %v of %s: got %d descriptors, want at most %d", a, what, len(values), maxWords)
	}
	for i, v := range values {
		h.mem.words[i] = uint64(v)
	}
	return h.setTraced(d, a, typeDescriptor, len(values), what, func() string { return "addresses" })
}

// count asks how many elements an attribute has.
func (h *Handle) count(d descriptor, a attribute, t attributeType, what string) (int, error) {
	count := &h.mem.words[maxWords-1]
	*count = 0
	status := Status(h.caller.Call(h.fn.getAttribute, uintptr(d), uintptr(a), uintptr(t), 0, uintptr(unsafe.Pointer(count)), 0))
	if status != 0 {
		return 0, h.failed("cudnnBackendGetAttribute", fmt.Sprintf("%v of %s", a, what), status)
	}
	return int(int64(*count)), nil
}

// get reads at most n elements into h.mem.words, after the values put there, and returns how many
// there are.
func (h *Handle) get(d descriptor, a attribute, t attributeType, n int, what string) (int, error) {
	if n >= maxWords {
		return 0, fmt.Errorf("cudnn: get %v of %s: got %d elements, want fewer than %d", a, what, n, maxWords)
	}
	count := &h.mem.words[maxWords-1]
	*count = 0
	status := Status(h.caller.Call(h.fn.getAttribute, uintptr(d), uintptr(a), uintptr(t), uintptr(n),
		uintptr(unsafe.Pointer(count)), uintptr(unsafe.Pointer(&h.mem.words[0]))))
	if status != 0 {
		return 0, h.failed("cudnnBackendGetAttribute", fmt.Sprintf("%v of %s", a, what), status)
	}
	return min(n, int(int64(*count))), nil
}

// getInt reads one 64-bit number.
func (h *Handle) getInt(d descriptor, a attribute, what string) (int64, error) {
	h.mem.words[0] = 0
	n, err := h.get(d, a, typeInt64, 1, what)
	if err != nil {
		return 0, err
	}
	if n != 1 {
		return 0, fmt.Errorf("cudnn: get %v of %s: got %d elements, want 1", a, what, n)
	}
	return int64(h.mem.words[0]), nil
}

// getEnums reads 32-bit elements, at most most of them.
func (h *Handle) getEnums(d descriptor, a attribute, t attributeType, most int, what string) ([]int32, error) {
	n, err := h.get(d, a, t, most, what)
	if err != nil {
		return nil, err
	}
	return slices.Clone(unsafe.Slice((*int32)(unsafe.Pointer(&h.mem.words[0])), most)[:n]), nil
}

// getDescriptors reads an array of descriptors of type t. The library fills in descriptors that the
// caller has made; those not filled in are destroyed again. The caller owns the result.
func (h *Handle) getDescriptors(d descriptor, a attribute, t descriptorType, n int, what string) ([]descriptor, error) {
	made := make([]descriptor, 0, n)
	release := func(all []descriptor) {
		for _, m := range all {
			// The error that matters is the one at hand.
			h.destroy(m)
		}
	}
	for range n {
		m, err := h.create(t, what)
		if err != nil {
			release(made)
			return nil, err
		}
		made = append(made, m)
	}
	for i, m := range made {
		h.mem.words[i] = uint64(m)
	}
	got, err := h.get(d, a, typeDescriptor, n, what)
	if err != nil {
		release(made)
		return nil, err
	}
	release(made[got:])
	return made[:got], nil
}
