package drv

// Values of the driver's interface, under the names that they have in its header, cuda.h.

// CUresult.
const (
	success                  = 0   // CUDA_SUCCESS
	errorInvalidValue        = 1   // CUDA_ERROR_INVALID_VALUE
	errorOutOfMemory         = 2   // CUDA_ERROR_OUT_OF_MEMORY
	errorStubLibrary         = 34  // CUDA_ERROR_STUB_LIBRARY
	errorDeviceUnavailable   = 46  // CUDA_ERROR_DEVICE_UNAVAILABLE
	errorNoDevice            = 100 // CUDA_ERROR_NO_DEVICE
	errorInvalidDevice       = 101 // CUDA_ERROR_INVALID_DEVICE
	errorECCUncorrectable    = 214 // CUDA_ERROR_ECC_UNCORRECTABLE
	errorNVLinkUncorrectable = 220 // CUDA_ERROR_NVLINK_UNCORRECTABLE
	errorContained           = 226 // CUDA_ERROR_CONTAINED
	errorNotReady            = 600 // CUDA_ERROR_NOT_READY
	errorIllegalAddress      = 700 // CUDA_ERROR_ILLEGAL_ADDRESS
	errorLaunchTimeout       = 702 // CUDA_ERROR_LAUNCH_TIMEOUT
	errorPeerEnabled         = 704 // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
	errorContextIsDestroyed  = 709 // CUDA_ERROR_CONTEXT_IS_DESTROYED
	errorAssert              = 710 // CUDA_ERROR_ASSERT
	errorHardwareStackError  = 714 // CUDA_ERROR_HARDWARE_STACK_ERROR
	errorIllegalInstruction  = 715 // CUDA_ERROR_ILLEGAL_INSTRUCTION
	errorMisalignedAddress   = 716 // CUDA_ERROR_MISALIGNED_ADDRESS
	errorInvalidAddressSpace = 717 // CUDA_ERROR_INVALID_ADDRESS_SPACE
	errorInvalidPC           = 718 // CUDA_ERROR_INVALID_PC
	errorLaunchFailed        = 719 // CUDA_ERROR_LAUNCH_FAILED
	errorTensorMemoryLeak    = 721 // CUDA_ERROR_TENSOR_MEMORY_LEAK
	errorSystemMismatch      = 803 // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
	errorNotCompatible       = 804 // CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
	errorUnknown             = 999 // CUDA_ERROR_UNKNOWN
)

// Flags.
const (
	streamNonBlocking    = 1 // CU_STREAM_NON_BLOCKING
	eventBlockingSync    = 1 // CU_EVENT_BLOCKING_SYNC
	eventDisableTiming   = 2 // CU_EVENT_DISABLE_TIMING
	captureThreadLocal   = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	hostAllocPortable    = 1 // CU_MEMHOSTALLOC_PORTABLE
	hostRegisterPortable = 1 // CU_MEMHOSTREGISTER_PORTABLE
)

// CUjit_option.
const (
	jitInfoLogBuffer      = 3 // CU_JIT_INFO_LOG_BUFFER
	jitInfoLogBufferSize  = 4 // CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES
	jitErrorLogBuffer     = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogBufferSize = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
)

// Markers in a launch's list of extras.
const (
	launchParamEnd           = 0 // CU_LAUNCH_PARAM_END
	launchParamBufferPointer = 1 // CU_LAUNCH_PARAM_BUFFER_POINTER
	launchParamBufferSize    = 2 // CU_LAUNCH_PARAM_BUFFER_SIZE
)

// CUdevice_attribute.
const (
	attributeSMs             = 16 // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
	attributeL2              = 38 // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
	attributeMajor           = 75 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
	attributeMinor           = 76 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
	attributeSharedMemoryOpt = 97 // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
)

// A FuncAttribute is something that a kernel has or may use (CUfunction_attribute).
type FuncAttribute int32

const (
	MaxThreadsPerBlock FuncAttribute = 0 // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
	SharedBytes        FuncAttribute = 1 // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES

	// LocalBytes is above 0 if registers are spilled.
	LocalBytes FuncAttribute = 3 // CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES

	Registers FuncAttribute = 4 // CU_FUNC_ATTRIBUTE_NUM_REGS

	// MaxDynamicShared may be set, up to SharedOptIn.
	MaxDynamicShared FuncAttribute = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
)
