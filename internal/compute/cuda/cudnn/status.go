package cudnn

import (
	"errors"
	"fmt"
)

// ErrNotSupported is in every error that says that this library, device and question do not go
// together: no engine answers the question. Another plan, another type or other kernels may.
var ErrNotSupported = errors.New("not supported")

// ErrWrong is in the error of an engine that gave wrong numbers when it was tried.
var ErrWrong = errors.New("wrong numbers")

// ErrVersion is in the error of Open for a library that is older than MinVersion, or of another
// major version.
var ErrVersion = errors.New("wrong version of cuDNN")

// A Status is a cudnnStatus_t.
type Status int32

var statusNames = map[Status]string{
	0:    "CUDNN_STATUS_SUCCESS",
	1001: "CUDNN_STATUS_NOT_INITIALIZED",
	1002: "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
	1003: "CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH",
	1004: "CUDNN_STATUS_DEPRECATED",
	1005: "CUDNN_STATUS_LICENSE_ERROR",
	1006: "CUDNN_STATUS_RUNTIME_IN_PROGRESS",
	1007: "CUDNN_STATUS_RUNTIME_FP_OVERFLOW",
	1008: "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
	2000: "CUDNN_STATUS_BAD_PARAM",
	2001: "CUDNN_STATUS_INVALID_VALUE",
	2002: "CUDNN_STATUS_BAD_PARAM_NULL_POINTER",
	2003: "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER",
	2004: "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED",
	2005: "CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND",
	2006: "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT",
	2007: "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH",
	2008: "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH",
	2009: "CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES",
	2010: "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE",
	2011: "CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH",
	2012: "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE",
	3000: "CUDNN_STATUS_NOT_SUPPORTED",
	3001: "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN",
	3002: "CUDNN_STATUS_NOT_SUPPORTED_SHAPE",
	3003: "CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE",
	3004: "CUDNN_STATUS_NOT_SUPPORTED_LAYOUT",
	3005: "CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER",
	3006: "CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART",
	3007: "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH",
	3008: "CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING",
	3009: "CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE",
	3010: "CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT",
	3011: "CUDNN_STATUS_NOT_SUPPORTED_PADDING",
	3012: "CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM",
	3013: "CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API",
	3014: "CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE",
	4000: "CUDNN_STATUS_INTERNAL_ERROR",
	4001: "CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED",
	4002: "CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE",
	4003: "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
	4004: "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
	4005: "CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM",
	4006: "CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED",
	5000: "CUDNN_STATUS_EXECUTION_FAILED",
	5001: "CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER",
	5002: "CUDNN_STATUS_EXECUTION_FAILED_CUBLAS",
	5003: "CUDNN_STATUS_EXECUTION_FAILED_CUDART",
	5004: "CUDNN_STATUS_EXECUTION_FAILED_CURAND",
}

func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return fmt.Sprintf("%s (%d)", name, int32(s))
	}
	return fmt.Sprintf("cudnnStatus_t %d", int32(s))
}

// notSupported reports whether another engine may do what this one cannot.
func (s Status) notSupported() bool { return s >= 3000 && s < 4000 }

// An Error is a call that the library refused.
type Error struct {
	Call string // "cudnnBackendFinalize"

	// Object is what the call was about, with its shapes, such as
	// "CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR of eng4 for forward N2 ...".
	Object string

	Status Status
	Text   string // what cudnnGetLastErrorString said, may be empty
}

func (e *Error) Error() string {
	text := fmt.Sprintf("cudnn: %s of %s: %v", e.Call, e.Object, e.Status)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Refused reports whether an error is the library's answer about one engine, one of its heuristics
// or one form of a question: another may do. Beside "not supported" an engine may be broken in some
// version: its compilation may fail, or it may find fault with what others take. What is no refusal
// is a fault around the library, such as of the driver.
func Refused(err error) bool {
	var e *Error
	return errors.Is(err, ErrNotSupported) || errors.As(err, &e)
}

// refused joins the reasons why nothing is left. It is ErrNotSupported unless one of them is
// another.
func refused(reasons []error) error {
	var other []error
	for _, r := range reasons {
		if !errors.Is(r, ErrNotSupported) {
			other = append(other, r)
		}
	}
	if len(other) > 0 {
		return errors.Join(other...)
	}
	return errors.Join(append(reasons, ErrNotSupported)...)
}

// Is reports a status of the 3000s as ErrNotSupported.
func (e *Error) Is(target error) bool { return target == ErrNotSupported && e.Status.notSupported() }
