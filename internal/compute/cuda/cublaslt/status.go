package cublaslt

import (
	"errors"
	"fmt"
)

// ErrNotSupported is in every error that says that no algorithm does a product.
var ErrNotSupported = errors.New("not supported")

// ErrVersion is in the error of Open for a library that is older than MinVersion.
var ErrVersion = errors.New("wrong version of cuBLASLt")

// A Status is a cublasStatus_t.
type Status int32

const statusNotSupported Status = 15

func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return fmt.Sprintf("%s (%d)", name, int32(s))
	}
	return fmt.Sprintf("cublasStatus_t %d", int32(s))
}

// An Error is a call that the library refused.
type Error struct {
	Call string // "cublasLtMatmul"

	// Object is what the call was about, with its shapes.
	Object string

	Status Status
}

func (e *Error) Error() string {
	return fmt.Sprintf("cublaslt: %s of %s: %v", e.Call, e.Object, e.Status)
}

// Is reports CUBLAS_STATUS_NOT_SUPPORTED as ErrNotSupported.
func (e *Error) Is(target error) bool {
	return target == ErrNotSupported && e.Status == statusNotSupported
}
