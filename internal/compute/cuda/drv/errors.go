package drv

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

var (
	// ErrNoLibrary says that this machine has no driver.
	ErrNoLibrary = dl.ErrNoLibrary
	// ErrNoDevice says that there is a driver and no GPU that it can use, or none of the number
	// asked for.
	ErrNoDevice = errors.New("no such GPU")
	// ErrTooOld says that the driver is older than what this package needs.
	ErrTooOld = dl.ErrTooOld
	// ErrOutOfMemory says that the GPU, or the memory that can be pinned, is full.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrLost says that the GPU's context is lost until the process ends: a kernel accessed
	// what it must not, or the GPU failed.
	ErrLost = errors.New("the GPU's context is lost")
	// ErrClosed says that the context or the thread was closed.
	ErrClosed = errors.New("closed")
)

// An Error is an answer of the driver other than success.
type Error struct {
	// Call has its object and numbers, such as "cuMemAlloc_v2 of 17 bytes on cuda:0".
	Call string

	Code int32  // CUresult
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"

	// Text is the driver's explanation, such as "out of memory".
	Text string

	Log string // what its compiler said, for modules
}

func (e *Error) Error() string {
	s := fmt.Sprintf("drv: %s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
	if e.Log != "" {
		s += "\n" + e.Log
	}
	return s
}

// Is answers for ErrNoDevice, ErrOutOfMemory and ErrLost.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNoDevice:
		return e.Code == errorNoDevice || e.Code == errorInvalidDevice
	case ErrOutOfMemory:
		return e.Code == errorOutOfMemory
	case ErrLost:
		return e.Sticky()
	}
	return false
}

// Sticky says whether every later call of this process on this GPU will answer the same.
func (e *Error) Sticky() bool {
	switch e.Code {
	case errorIllegalAddress, errorLaunchTimeout, errorAssert, errorHardwareStackError, errorIllegalInstruction,
		errorMisalignedAddress, errorInvalidAddressSpace, errorInvalidPC, errorLaunchFailed, errorECCUncorrectable,
		errorDeviceUnavailable, errorNVLinkUncorrectable, errorContained, errorContextIsDestroyed, errorTensorMemoryLeak, errorUnknown:
		return true
	}
	return false
}
