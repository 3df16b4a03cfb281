//go:build cgo && linux

package gpustat

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

func TestGPUsAreReadAndWhatTheyDoNotTellIsUnknown(t *testing.T) {
	device := &mock.Device{
		GetUUIDFunc: func() (string, nvml.Return) { return "GPU-a", nvml.SUCCESS },
		GetNameFunc: func() (string, nvml.Return) { return "NVIDIA H200", nvml.SUCCESS },
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Used: 3 << 30, Total: 141 << 30}, nvml.SUCCESS
		},
		GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97}, nvml.SUCCESS },
		GetTemperatureFunc:      func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED },
		// No GetPowerUsage: to call it would panic, as a function that the library lacks
		// ends the process.
	}
	closed := false
	lib := &mock.Interface{
		InitFunc:                   func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:               func() nvml.Return { closed = true; return nvml.SUCCESS },
		DeviceGetCountFunc:         func() (int, nvml.Return) { return 1, nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(int) (nvml.Device, nvml.Return) { return device, nvml.SUCCESS },
	}
	r, err := open(lib, func(symbol string) bool { return symbol != "nvmlDeviceGetPowerUsage" })
	if err != nil {
		t.Fatal(err)
	}
	gpus, err := r.Read()
	if err != nil || len(gpus) != 1 {
		t.Fatalf("got %v and error %v, want one GPU", gpus, err)
	}
	g := gpus[0]
	if g.UUID != "GPU-a" || g.Name != "NVIDIA H200" || g.MemoryUsed != 3<<30 || g.Load != 0.97 || !math.IsNaN(g.Temperature) || !math.IsNaN(g.Power) {
		t.Errorf("got %+v", g)
	}
	if err := r.Close(); err != nil || !closed {
		t.Errorf("close: error %v, closed %t", err, closed)
	}
}

func TestNothingIsCalledAfterAnInitThatFailed(t *testing.T) {
	for code, want := range map[nvml.Return]string{nvml.ERROR_LIBRARY_NOT_FOUND: "there is no libnvidia-ml.so.1", nvml.ERROR_DRIVER_NOT_LOADED: "code 9: the driver's module is not",
		nvml.ERROR_UNKNOWN: "code 999"} {
		lib := &mock.Interface{InitFunc: func() nvml.Return { return code }} // all else panics
		if _, err := open(lib, nil); !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want ErrNoDriver and %q", err, want)
		}
	}
}

func TestAMachineWithoutADriverSaysSo(t *testing.T) {
	r, err := Open()
	if err != nil {
		if !errors.Is(err, ErrNoDriver) {
			t.Errorf("got error %v, want ErrNoDriver", err)
		}
		t.Log(err)
		return
	}
	defer r.Close()
	if _, err := r.Read(); err != nil {
		t.Error(err)
	}
}
