//go:build cgo && linux

package gpustat

import (
	"errors"
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// A Reader has the library open. One goroutine at a time may use it.
type Reader struct {
	lib nvml.Interface
	has func(symbol string) bool
}

// Open opens the library, wherever dl.Search knows it. After an error nothing of it may be called:
// a function that the library lacks ends the process.
func Open() (*Reader, error) {
	for _, path := range new(dl.Search).Candidates(dl.NVML) {
		lib := nvml.New(nvml.WithLibraryPath(path))
		r, err := open(lib, func(symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil })
		if !errors.Is(err, errNoLibrary) {
			return r, err
		}
	}
	return nil, errNoLibrary
}

var errNoLibrary = fmt.Errorf("gpustat: %w: there is no libnvidia-ml.so.1", ErrNoDriver)

// reasons are texts for codes of an initialisation: the library's own would be asked of the
// library.
var reasons = map[nvml.Return]string{
	nvml.ERROR_DRIVER_NOT_LOADED:       "the driver's module is not in the kernel",
	nvml.ERROR_NO_PERMISSION:           "this user may not use the GPUs",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "the library and the kernel's module are of different versions",
}

func open(lib nvml.Interface, has func(symbol string) bool) (*Reader, error) {
	ret := lib.Init()
	switch reason, known := reasons[ret]; {
	case ret == nvml.SUCCESS:
		return &Reader{lib, has}, nil
	case ret == nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, errNoLibrary
	case known:
		return nil, fmt.Errorf("gpustat: %w: nvmlInit: code %d: %s", ErrNoDriver, int(ret), reason)
	default:
		return nil, fmt.Errorf("gpustat: %w: nvmlInit: code %d", ErrNoDriver, int(ret))
	}
}

// Close gives the library back.
func (r *Reader) Close() error {
	if ret := r.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("gpustat: close: %w", ret)
	}
	return nil
}

// Read asks every GPU.
func (r *Reader) Read() ([]GPU, error) {
	n, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("gpustat: count GPUs: %w", ret)
	}
	gpus := make([]GPU, 0, n)
	for i := range n {
		d, ret := r.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("gpustat: GPU %d of %d: %w", i, n, ret)
		}
		gpus = append(gpus, r.read(i, d))
	}
	return gpus, nil
}

// read asks one GPU; what it does not tell stays unknown.
func (r *Reader) read(i int, d nvml.Device) GPU {
	unknown := math.NaN()
	g := GPU{Index: i, UUID: "n/a", Name: "n/a", MemoryUsed: unknown, MemoryTotal: unknown, Load: unknown, Temperature: unknown, Power: unknown}
	if v, ret := d.GetUUID(); ret == nvml.SUCCESS {
		g.UUID = v
	}
	if v, ret := d.GetName(); ret == nvml.SUCCESS {
		g.Name = v
	}
	if v, ret := d.GetMemoryInfo(); ret == nvml.SUCCESS {
		g.MemoryUsed, g.MemoryTotal = float64(v.Used), float64(v.Total)
	}
	if r.has("nvmlDeviceGetUtilizationRates") {
		if v, ret := d.GetUtilizationRates(); ret == nvml.SUCCESS {
			g.Load = float64(v.Gpu) / 100
		}
	}

	// Drivers of CUDA 13 still have it, and some of them do not have its successor.
	if r.has("nvmlDeviceGetTemperature") {
		if v, ret := d.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
			g.Temperature = float64(v)
		}
	}
	if r.has("nvmlDeviceGetPowerUsage") {
		if v, ret := d.GetPowerUsage(); ret == nvml.SUCCESS {
			g.Power = float64(v) / 1000
		}
	}
	return g
}
