package checkpoint

// A DType is the type of a tensor's elements, by its name in the file.
type DType string

// The types that safetensors files hold. Those with a method of their own on
// File are read as numbers; all are read as bytes. A file may have tensors of
// other types, which this package does not know; they are listed, and read as bytes.
const (
	F64        DType = "F64"
	F32        DType = "F32"
	F16        DType = "F16"
	BF16       DType = "BF16"
	F8E4M3     DType = "F8_E4M3"
	F8E5M2     DType = "F8_E5M2"
	F8E8M0     DType = "F8_E8M0"
	F8E4M3FNUZ DType = "F8_E4M3FNUZ"
	F8E5M2FNUZ DType = "F8_E5M2FNUZ"
	F6E2M3     DType = "F6_E2M3"
	F6E3M2     DType = "F6_E3M2"
	F4         DType = "F4"
	// C64 is two F32: the real part, then the imaginary one.
	C64  DType = "C64"
	I64  DType = "I64"
	I32  DType = "I32"
	I16  DType = "I16"
	I8   DType = "I8"
	U64  DType = "U64"
	U32  DType = "U32"
	U16  DType = "U16"
	U8   DType = "U8"
	Bool DType = "BOOL"
)

// Bits returns the bits of an element, or 0 for a type that is not known.
func (d DType) Bits() int {
	switch d {
	case F64, I64, U64, C64:
		return 64
	case F32, I32, U32:
		return 32
	case F16, BF16, I16, U16:
		return 16
	case I8, U8, Bool, F8E4M3, F8E5M2, F8E8M0, F8E4M3FNUZ, F8E5M2FNUZ:
		return 8
	case F6E2M3, F6E3M2:
		return 6
	case F4:
		return 4
	}
	return 0
}

// Size returns the bytes of an element, or 0 for a type that is not known or
// takes less than a byte.
func (d DType) Size() int { return d.Bits() / 8 }
