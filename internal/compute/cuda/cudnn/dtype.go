package cudnn

import "fmt"

// A DType is how a number is stored: a cudnnDataType_t. The zero value is Float32.
type DType int32

// The types of this package's tensors.
const (
	Float32  DType = 0
	Float16  DType = 2
	BFloat16 DType = 9
	boolean  DType = 11 // eight to a byte
)

func (t DType) String() string {
	switch t {
	case Float32:
		return "float32"
	case Float16:
		return "float16"
	case BFloat16:
		return "bfloat16"
	case boolean:
		return "boolean"
	}
	return fmt.Sprintf("DType(%d)", int32(t))
}

// Size is the bytes of one number.
func (t DType) Size() int64 {
	if t == Float32 {
		return 4
	}
	return 2
}

// check is an error unless a tensor may have this type.
func (t DType) check(what string) error {
	if t != Float32 && t != Float16 && t != BFloat16 {
		return fmt.Errorf("%s has type %v, want float32, float16 or bfloat16", what, t)
	}
	return nil
}
