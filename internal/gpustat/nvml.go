//go:build cgo && linux

package gpustat

import (
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A Reader has the library open. One goroutine at a time may use it.
type Reader struct {
	lib nvml.Interface
	has func(symbol string) bool
}

// Open opens the library. After an error nothing of it may be called: a function that the library lacks ends the process.
func Open() (*Reader, error) {
	lib := nvml.New()
	return open(lib, func(symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil })
}

func open(lib nvml.Interface, has func(symbol string) bool) (*Reader, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("gpustat: %w: nvmlInit: code %d", ErrNoDriver, int(ret)) // its text would be asked of the library
	}
	return &Reader{lib, has}, nil
}

// Close gives the library back.
func (r *Reader) Close() error {
	if ret := r.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("gpustat: close: %v", ret)
	}
	return nil
}

// Read asks every GPU.
func (r *Reader) Read() ([]GPU, error) {
	n, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("gpustat: count GPUs: %v", ret)
	}
	gpus := make([]GPU, 0, n)
	for i := range n {
		d, ret := r.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("gpustat: GPU %d of %d: %v", i, n, ret)
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
	if r.has("nvmlDeviceGetTemperature") { // still there in drivers of CUDA 13, where its successor is newer than some
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
