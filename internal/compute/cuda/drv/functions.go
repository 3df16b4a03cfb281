package drv

import "github.com/paragon-train/paragon/internal/compute/cuda/dl"

// functions are the addresses of libcuda's functions, under their names in the library.
type functions struct {
	cuInit, cuDriverGetVersion, cuGetErrorName, cuGetErrorString uintptr

	cuDeviceGetCount, cuDeviceGet, cuDeviceGetName, cuDeviceGetUuid, cuDeviceGetPCIBusId, cuDeviceGetAttribute,
	cuDeviceTotalMem, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease, cuDeviceCanAccessPeer uintptr

	cuCtxSetCurrent, cuCtxSynchronize, cuCtxEnablePeerAccess uintptr

	cuMemAlloc, cuMemFree, cuMemGetInfo, cuMemHostAlloc, cuMemFreeHost, cuMemHostRegister, cuMemHostUnregister uintptr

	cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync, cuMemcpyPeerAsync, cuMemsetD8Async, cuMemsetD32Async uintptr

	cuStreamCreateWithPriority, cuStreamDestroy, cuStreamSynchronize, cuStreamWaitEvent, cuStreamBeginCapture,
	cuStreamEndCapture uintptr

	cuEventCreate, cuEventDestroy, cuEventRecord, cuEventQuery, cuEventSynchronize, cuEventElapsedTime uintptr

	cuModuleLoadDataEx, cuModuleUnload, cuModuleGetFunction, cuFuncGetAttribute, cuFuncSetAttribute,
	cuOccupancyMaxActiveBlocksPerMultiprocessor, cuLaunchKernel uintptr

	cuGraphInstantiateWithFlags, cuGraphUpload, cuGraphLaunch, cuGraphExecDestroy, cuGraphDestroy uintptr
}

// resolve looks all of them up. Where a name changed with its arguments, the older form is called
// only if the arguments are the same.
func (f *functions) resolve(lib *dl.Library) error {
	for _, want := range []struct {
		at    *uintptr
		names []string
	}{
		{&f.cuInit, []string{"cuInit"}},
		{&f.cuDriverGetVersion, []string{"cuDriverGetVersion"}},
		{&f.cuGetErrorName, []string{"cuGetErrorName"}},
		{&f.cuGetErrorString, []string{"cuGetErrorString"}},
		{&f.cuDeviceGetCount, []string{"cuDeviceGetCount"}},
		{&f.cuDeviceGet, []string{"cuDeviceGet"}},
		{&f.cuDeviceGetName, []string{"cuDeviceGetName"}},
		{&f.cuDeviceGetUuid, []string{"cuDeviceGetUuid_v2", "cuDeviceGetUuid"}},
		{&f.cuDeviceGetPCIBusId, []string{"cuDeviceGetPCIBusId"}},
		{&f.cuDeviceGetAttribute, []string{"cuDeviceGetAttribute"}},
		{&f.cuDeviceTotalMem, []string{"cuDeviceTotalMem_v2"}},
		{&f.cuDevicePrimaryCtxRetain, []string{"cuDevicePrimaryCtxRetain"}},
		{&f.cuDevicePrimaryCtxRelease, []string{"cuDevicePrimaryCtxRelease_v2"}},
		{&f.cuDeviceCanAccessPeer, []string{"cuDeviceCanAccessPeer"}},
		{&f.cuCtxSetCurrent, []string{"cuCtxSetCurrent"}},
		{&f.cuCtxSynchronize, []string{"cuCtxSynchronize"}},
		{&f.cuCtxEnablePeerAccess, []string{"cuCtxEnablePeerAccess"}},
		{&f.cuMemAlloc, []string{"cuMemAlloc_v2"}},
		{&f.cuMemFree, []string{"cuMemFree_v2"}},
		{&f.cuMemGetInfo, []string{"cuMemGetInfo_v2"}},
		{&f.cuMemHostAlloc, []string{"cuMemHostAlloc"}},
		{&f.cuMemFreeHost, []string{"cuMemFreeHost"}},
		{&f.cuMemHostRegister, []string{"cuMemHostRegister_v2"}},
		{&f.cuMemHostUnregister, []string{"cuMemHostUnregister"}},
		{&f.cuMemcpyHtoDAsync, []string{"cuMemcpyHtoDAsync_v2"}},
		{&f.cuMemcpyDtoHAsync, []string{"cuMemcpyDtoHAsync_v2"}},
		{&f.cuMemcpyDtoDAsync, []string{"cuMemcpyDtoDAsync_v2"}},
		{&f.cuMemcpyPeerAsync, []string{"cuMemcpyPeerAsync"}},
		{&f.cuMemsetD8Async, []string{"cuMemsetD8Async"}},
		{&f.cuMemsetD32Async, []string{"cuMemsetD32Async"}},
		{&f.cuStreamCreateWithPriority, []string{"cuStreamCreateWithPriority"}},
		{&f.cuStreamDestroy, []string{"cuStreamDestroy_v2"}},
		{&f.cuStreamSynchronize, []string{"cuStreamSynchronize"}},
		{&f.cuStreamWaitEvent, []string{"cuStreamWaitEvent"}},
		{&f.cuStreamBeginCapture, []string{"cuStreamBeginCapture_v2"}},
		{&f.cuStreamEndCapture, []string{"cuStreamEndCapture"}},
		{&f.cuEventCreate, []string{"cuEventCreate"}},
		{&f.cuEventDestroy, []string{"cuEventDestroy_v2"}},
		{&f.cuEventRecord, []string{"cuEventRecord"}},
		{&f.cuEventQuery, []string{"cuEventQuery"}},
		{&f.cuEventSynchronize, []string{"cuEventSynchronize"}},
		{&f.cuEventElapsedTime, []string{"cuEventElapsedTime_v2", "cuEventElapsedTime"}},
		{&f.cuModuleLoadDataEx, []string{"cuModuleLoadDataEx"}},
		{&f.cuModuleUnload, []string{"cuModuleUnload"}},
		{&f.cuModuleGetFunction, []string{"cuModuleGetFunction"}},
		{&f.cuFuncGetAttribute, []string{"cuFuncGetAttribute"}},
		{&f.cuFuncSetAttribute, []string{"cuFuncSetAttribute"}},
		{&f.cuOccupancyMaxActiveBlocksPerMultiprocessor, []string{"cuOccupancyMaxActiveBlocksPerMultiprocessor"}},
		{&f.cuLaunchKernel, []string{"cuLaunchKernel"}},
		{&f.cuGraphInstantiateWithFlags, []string{"cuGraphInstantiateWithFlags"}},
		{&f.cuGraphUpload, []string{"cuGraphUpload"}},
		{&f.cuGraphLaunch, []string{"cuGraphLaunch"}},
		{&f.cuGraphExecDestroy, []string{"cuGraphExecDestroy"}},
		{&f.cuGraphDestroy, []string{"cuGraphDestroy"}},
	} {
		address, err := lib.FirstSymbol(want.names...)
		if err != nil {
			return err
		}
		*want.at = address
	}
	return nil
}
