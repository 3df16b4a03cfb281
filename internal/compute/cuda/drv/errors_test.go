package drv_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
)

func asError(err error, e **drv.Error) bool { return errors.As(err, e) }

// An error names the call with its numbers, the GPU, and the driver's name, code and text.
func TestErrorSaysWhatTheDriverSays(t *testing.T) {
	r := newRig(t)
	r.m.Set("oom_at", 1)
	r.do(func() error {
		_, err := r.ctx.Malloc(17)
		const want = "drv: cuMemAlloc_v2 of 17 bytes on cuda:0: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if !errors.Is(err, drv.ErrOutOfMemory) || errors.Is(err, drv.ErrLost) {
			t.Errorf("%v: is ErrOutOfMemory %v, want true; is ErrLost %v, want false", err, errors.Is(err, drv.ErrOutOfMemory), errors.Is(err, drv.ErrLost))
		}
		p, err := r.ctx.Malloc(17)
		if err != nil {
			t.Errorf("the allocation after it: %v", err)
		}
		return r.ctx.Free(p)
	})
}

// What the driver cannot start with is an error that says why.
func TestOpenSaysWhyThereIsNoGPU(t *testing.T) {
	for _, c := range []struct {
		name, setting string
		value         int64
		is            error
		says          string
	}{
		{"no device", "devices", 0, drv.ErrNoDevice, "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"},
		{"old driver", "version", 11040, drv.ErrTooOld, "it runs CUDA 11.4, and 12.0 or newer is needed"},
		{"stub", "init_error", 34, nil, "the file is a stub for linkers"},
		{"mixed installation", "init_error", 803, nil, "the library and the kernel's module are of different versions"},
		{"a library of another package", "init_error", 804, nil, "PARAGON_CUDA_PATH names the driver's own"},
		{"no device files", "init_error", 999, nil, "/dev/nvidia-uvm"},
		{"hidden", "init_error", 100, drv.ErrNoDevice, `CUDA_VISIBLE_DEVICES is "7"`},
		{"a code without a name", "init_error", 12345, nil, "CUresult 12345 (12345)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("CUDA_VISIBLE_DEVICES", "7")
			m := fake.New(t)
			m.Set(c.setting, c.value)
			lib := must(m.Search().Open(dl.CUDA))(t)
			_, err := drv.Open(lib)
			if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q and errors.Is of %v", err, c.says, c.is)
			}
		})
	}
}

// A library without one of the driver's functions is named, with the function.
func TestOpenNamesTheMissingFunction(t *testing.T) {
	fake.Libraries(t)
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	cmd := exec.Command("g++", "-shared", "-fPIC", "-x", "c++", "-o", path, "-")
	cmd.Stdin = strings.NewReader(`extern "C" int cuInit(unsigned) { return 0; } extern "C" int cuDriverGetVersion(int *v) { return *v = 11000, 0; }`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lib := must((&dl.Search{Paths: dl.Paths{dl.CUDA: path}, Only: true}).Open(dl.CUDA))(t)
	_, err := drv.Open(lib)
	if !errors.Is(err, drv.ErrTooOld) || !strings.Contains(err.Error(), path+" has no function cuGetErrorName") || !strings.Contains(err.Error(), "CUDA 12.0 or newer") {
		t.Errorf("got %v, want ErrTooOld that names the file, cuGetErrorName and CUDA 12.0", err)
	}
}

// A GPU beyond the last is an error that says how many there are.
func TestNewContextBeyondTheLastGPU(t *testing.T) {
	m := fake.New(t)
	m.Set("devices", 3)
	for _, ordinal := range []int{-1, 3, 1 << 30} {
		_, err := m.Driver().NewContext(ordinal)
		if !errors.Is(err, drv.ErrNoDevice) || !strings.Contains(err.Error(), "this process sees 3") {
			t.Errorf("cuda:%d: got %v, want ErrNoDevice and the number 3", ordinal, err)
		}
	}
}

// Devices describes all GPUs.
func TestDevices(t *testing.T) {
	m := fake.New(t)
	m.Set("devices", 3)
	d := m.Driver()
	if major, minor := d.Version(); major != 13 || minor != 0 {
		t.Errorf("version %d.%d, want 13.0", major, minor)
	}
	infos := must(d.Devices())(t)
	if len(infos) != 3 {
		t.Fatalf("%d devices, want 3", len(infos))
	}
	want := drv.DeviceInfo{Ordinal: 1, Name: "Fake GPU 1", UUID: "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f", PCIBus: "0000:02:00.0",
		Compute: [2]int{9, 0}, SMs: 132, L2: 60 << 20, Memory: 1 << 30, SharedOptIn: 227 << 10}
	if infos[1] != want {
		t.Errorf("got  %+v\nwant %+v", infos[1], want)
	}
}

// After a kernel broke the GPU all calls answer so.
func TestLostContextStaysLost(t *testing.T) {
	for _, c := range []struct {
		setting string
		name    string
	}{{"launch_fails_at", "CUDA_ERROR_LAUNCH_FAILED"}, {"illegal_at", "CUDA_ERROR_ILLEGAL_ADDRESS"}} {
		t.Run(c.setting, func(t *testing.T) {
			r := newRig(t)
			r.m.Set("seed", 1)
			r.m.Set(c.setting, 2)
			r.do(func() error {
				d := r.device(10)
				if err := firstErr(r.launch("test_scale", r.s, d, float32(1), int32(10)), r.launch("test_scale", r.s, d, float32(1), int32(10))); err != nil {
					return err
				}
				for _, again := range []string{"synchronize", "malloc", "synchronize"} {
					err := r.ctx.Synchronize(r.s)
					if again == "malloc" {
						_, err = r.ctx.Malloc(1)
					}
					var e *drv.Error
					if !errors.Is(err, drv.ErrLost) || !asError(err, &e) || e.Name != c.name {
						t.Errorf("%s: got %v, want ErrLost and %s", again, err, c.name)
					}
				}
				return nil
			})
			if err := r.ctx.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// A GPU that is gone answers errors, and closing still works.
func TestDeviceThatIsGone(t *testing.T) {
	r := newRig(t)
	r.m.Set("lost_at", r.m.Count("calls")+3)
	r.do(func() error {
		for i := range 6 {
			_, err := r.ctx.Malloc(1)
			if lost := errors.Is(err, drv.ErrLost); lost != (i >= 2) {
				t.Errorf("call %d: got %v; want ErrLost from call 2 on", i, err)
			}
		}
		return nil
	})
}
