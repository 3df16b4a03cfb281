package kernels

import "fmt"

// A Type is how numbers are stored on the device.
type Type uint8

// The types. Uint8 and Int32 are for pixels and for labels or row numbers only.
const (
	Float32 Type = iota
	BFloat16
	Float16
	Uint8
	Int32
)

var typeNames = [...]string{"f32", "bf16", "f16", "u8", "i32"}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", t)
}

// Size is the number of bytes of one number.
func (t Type) Size() int64 {
	switch t {
	case BFloat16, Float16:
		return 2
	case Uint8:
		return 1
	}
	return 4
}

// float is true for the types that kernels compute with.
func (t Type) float() bool { return t <= Float16 }
