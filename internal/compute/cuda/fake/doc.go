// Package fake builds stand-ins for NVIDIA's libraries, for tests on machines without a GPU.
//
// They are shared libraries in C++ with the true functions, which the same Go code opens and calls
// as the real ones: a wrong number of arguments, a wrong constant or a wrong size is found. GPUs
// are memory of the process; kernels run in the emulator of package kernels. What the real driver
// leaves to its callers is checked: each address, each handle, pinned memory, what may be called
// during a capture. What a caller does wrong is a complaint, and the test fails for it.
//
//	m := fake.New(t)                       // skips the test where there is no C++ compiler
//	m.Set("seed", 7)                       // work is done in another legal order
//	lib, err := m.Search().Open(dl.CUDA)
//	...
//	m.Trace()                              // what was called
//
// # Settings
//
//	devices          GPUs, 2
//	memory           bytes of each, 1 GiB
//	seed             when work is done: 0 at once, 1 as late as waits allow and then only what they need, else by chance from that seed
//	order            of a kernel's threads: 0 forward, 1 backward, n the seed of a shuffle, -1 a new shuffle for each launch
//	poison           the byte that fresh and freed memory is filled with, 0xAB; 0xFF makes every floating point number of it NaN
//	trace            1 to collect calls, 2 to add when their work is done, 3 its microseconds of a clock that knows no load instead
//	version          of the driver, 13000 for 13.0
//	compute          compute capability, 90 for 9.0
//	sms, peer        multiprocessors; 0 for GPUs that cannot access each other
//	init_error       what cuInit answers
//	ptx_error, ptx_late_error
//	                 what loading PTX answers, and what asking for a kernel of it
//	oom_at, host_oom_at, register_fails_at
//	                 the n-th next allocation on the GPU, of pinned memory, or registration, is the one that fails
//	launch_fails_at, illegal_at
//	                 the n-th next launch breaks the GPU with CUDA_ERROR_LAUNCH_FAILED or CUDA_ERROR_ILLEGAL_ADDRESS
//	graph_fails_at   the n-th next launch of a graph breaks the GPU with CUDA_ERROR_LAUNCH_FAILED
//	lost_at          from the n-th call on, all calls answer CUDA_ERROR_UNKNOWN
//	skip_at          the n-th next launch does nothing, and says that it did
//	hang_at          the n-th call never returns, and no other does from then on
//	cudnn_version, cudnn_cudart, cublaslt_version
//	                 91900 for 9.19.0, 13000 for one that is built for CUDA 13.0, 130001 for 13.0.1
//	fault_device, fault_code
//	                 the one device that breaks, of the settings above, and with which CUresult in place of the one that they name
//	capture_fails_at the n-th next end of a capture finds that it was invalidated
//	nccl_hangs_at, nccl_call_hangs_at
//	                 the n-th next collective never ends on the GPUs, or the call that asks for it never returns, until it is aborted
//	nccl_async_error, nccl_async_rank
//	                 what ncclCommGetAsyncError tells, and of which rank alone
//	cudnn_wgrad_float32, cudnn_mask_scalar, cudnn_heuristics_b
//	                 0 for a cuDNN that lacks it: float32 gradients of 16-bit weights, a mask by comparing with a number, mode B
//	cudnn_mixed_types, cudnn_beta
//	                 the status with which an operation on tensors of several types, or one that adds to its result, is refused early; 0: not
//	cudnn_bad        bits of engines that the heuristics propose first and that fail when they run: 1 gives wrong numbers, 2 leaves the
//	                 result unwritten, 4 refuses, 8 refuses within a capture, 16 breaks the GPU
//	cudnn_no_behavior
//	                 1 for engines that do not say how they behave
//	cudnn_compiled   so many engines that are compiled when a plan is made come first, too
//	cudnn_no_engines, cublaslt_no_algorithms
//	                 1 for heuristics that know nothing
//	cudnn_refusal    the status of an engine that never compiles
//	cublaslt_bias_float32
//	                 1 for products of 16 bits that add a float32 bias
//	idle             1 for GPUs that do nothing but copies, 2 for such that do not even copy: what a step costs the host
//	node_ns          nanoseconds on the clock of the wall that an idle GPU takes for each node of a graph
//
// The environment variables FAKECUDA_DEVICES and so on, one for each, set them for a new process,
// and FAKECUDA_TRACE_FILE names a file for the calls.
package fake
