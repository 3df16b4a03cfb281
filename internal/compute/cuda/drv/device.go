package drv

import (
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// DeviceInfo describes a GPU.
type DeviceInfo struct {
	// Ordinal is its number among those that this process sees: that of cuda:0 is 0.
	Ordinal int

	Name string // "NVIDIA H200"

	// UUID is the same in every process and tool, such as "GPU-1b8fb1c2-...".
	UUID string

	// PCIBus is its place, such as "0000:3b:00.0".
	PCIBus string

	// Compute is the compute capability, such as {9, 0}.
	Compute [2]int

	SMs    int   // multiprocessors
	L2     int64 // bytes
	Memory int64 // bytes

	// SharedOptIn is the bytes of shared memory that a block may ask for.
	SharedOptIn int
}

func (i DeviceInfo) String() string {
	return fmt.Sprintf("cuda:%d %s, %d.%d, %d SMs, %.1f GiB, %s, PCI %s", i.Ordinal, i.Name, i.Compute[0], i.Compute[1], i.SMs,
		float64(i.Memory)/(1<<30), i.UUID, i.PCIBus)
}

// Devices describes the GPUs that this process may use. None is not an error.
func (d *Driver) Devices() ([]DeviceInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	infos := make([]DeviceInfo, n)
	for i := range infos {
		if infos[i], err = d.describe(i); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// count returns the number of GPUs; with d.mu held.
func (d *Driver) count() (int, error) {
	out := (*int32)(unsafe.Pointer(d.out))
	if code := d.call(d.f.cuDeviceGetCount, uintptr(unsafe.Pointer(out))); code != success {
		return 0, d.newError(&d.caller, "cuDeviceGetCount", code)
	}
	return int(*out), nil
}

// device returns the handle of a GPU; with d.mu held.
func (d *Driver) device(ordinal int) (int32, error) {
	n, err := d.count()
	if err != nil {
		return 0, err
	}
	if ordinal < 0 || ordinal >= n {
		return 0, fmt.Errorf("drv: cuda:%d: %w: this process sees %d, numbered from 0 (CUDA_VISIBLE_DEVICES hides some)", ordinal, ErrNoDevice, n)
	}
	out := (*int32)(unsafe.Pointer(d.out))
	if code := d.call(d.f.cuDeviceGet, uintptr(unsafe.Pointer(out)), uintptr(ordinal)); code != success {
		return 0, d.newError(&d.caller, fmt.Sprintf("cuDeviceGet of cuda:%d", ordinal), code)
	}
	return *out, nil
}

// describe asks for everything about a GPU; with d.mu held.
func (d *Driver) describe(ordinal int) (DeviceInfo, error) {
	info := DeviceInfo{Ordinal: ordinal}
	device, err := d.device(ordinal)
	if err != nil {
		return info, err
	}
	out := uintptr(unsafe.Pointer(d.out)) // d keeps it
	ask := func(what string, fn uintptr, args ...uintptr) error {
		clear(d.out[:])
		if code := d.call(fn, args...); code != success {
			return d.newError(&d.caller, fmt.Sprintf("%s of cuda:%d", what, ordinal), code)
		}
		return nil
	}
	if err := ask("cuDeviceGetName", d.f.cuDeviceGetName, out, uintptr(len(d.out)-1), uintptr(device)); err != nil {
		return info, err
	}
	info.Name = dl.Text(out)
	if err := ask("cuDeviceGetUuid", d.f.cuDeviceGetUuid, out, uintptr(device)); err != nil {
		return info, err
	}
	u := d.out[:16]
	info.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	if err := ask("cuDeviceGetPCIBusId", d.f.cuDeviceGetPCIBusId, out, uintptr(len(d.out)-1), uintptr(device)); err != nil {
		return info, err
	}
	info.PCIBus = dl.Text(out)
	if err := ask("cuDeviceTotalMem_v2", d.f.cuDeviceTotalMem, out, uintptr(device)); err != nil {
		return info, err
	}
	info.Memory = int64(*(*uintptr)(unsafe.Pointer(d.out)))
	for _, a := range []struct {
		attribute uintptr
		set       func(int)
	}{
		{attributeMajor, func(v int) { info.Compute[0] = v }},
		{attributeMinor, func(v int) { info.Compute[1] = v }},
		{attributeSMs, func(v int) { info.SMs = v }},
		{attributeL2, func(v int) { info.L2 = int64(v) }},
		{attributeSharedMemoryOpt, func(v int) { info.SharedOptIn = v }},
	} {
		if err := ask(fmt.Sprintf("cuDeviceGetAttribute %d", a.attribute), d.f.cuDeviceGetAttribute, out, a.attribute, uintptr(device)); err != nil {
			return info, err
		}
		a.set(int(*(*int32)(unsafe.Pointer(d.out))))
	}
	return info, nil
}
