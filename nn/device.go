package nn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// device is a parsed Config.Device.
type device struct {
	gpu    bool
	number int
}

func (d device) String() string {
	if d.gpu {
		return fmt.Sprintf("cuda:%d", d.number)
	}
	return fmt.Sprintf("cpu:%d", d.number)
}

func parseDevice(name string) (device, error) {
	kind, number, hasNumber := strings.Cut(name, ":")
	d := device{gpu: kind == "cuda"}
	var err error
	if hasNumber {
		d.number, err = strconv.Atoi(number)
	}
	if err != nil || d.number < 0 || strings.HasPrefix(number, "+") || name != "" && kind != "cpu" && kind != "cuda" {
		return device{}, fmt.Errorf("nn: Config.Device is %q, want cpu:0 or cuda:0", name)
	}
	return d, nil
}

// A Device is something that programs run on.
type Device struct {
	// Name is what Config.Device takes, and Text says what it is.
	Name, Text string
	// Memory is in bytes, and the device's own; 0 for a CPU.
	Memory int64
}

// Devices lists what programs of this process can run on: the CPU, then the NVIDIA GPUs, if there
// are any and a driver for them. CUDA_VISIBLE_DEVICES hides some from a process.
func Devices() []Device {
	devices, err := list(cuda.Options{})
	if err != nil {
		joblog.Process().Warn("an NVIDIA driver is installed, but its GPUs cannot be used", "error", err)
	}
	return devices
}

// list is Devices; the error says why a driver that is installed cannot be used.
func list(o cuda.Options) ([]Device, error) {
	devices := []Device{{Name: "cpu:0", Text: "CPU"}}
	gpus, err := cuda.Devices(o)
	// The machine may have no GPUs, or the build none.
	if errors.Is(err, dl.ErrNoLibrary) || errors.Is(err, dl.ErrBuild) {
		return devices, nil
	}
	if err != nil {
		return devices, err
	}
	for _, g := range gpus {
		devices = append(devices, Device{Name: fmt.Sprintf("cuda:%d", g.Ordinal), Text: g.String(), Memory: g.Memory})
	}
	return devices, nil
}

// AutoDevices returns the names of all GPUs, or cpu:0 if there is none.
func AutoDevices() []string {
	var names []string
	for _, d := range Devices()[1:] {
		names = append(names, d.Name)
	}
	if names == nil {
		return []string{"cpu:0"}
	}
	return names
}

// ParseDevices parses a command's flag: names such as cpu:0 and cuda:1, or the one word auto, which
// is AutoDevices.
func ParseDevices(names []string) ([]string, error) {
	if len(names) == 1 && names[0] == "auto" {
		return AutoDevices(), nil
	}
	if len(names) == 0 {
		return nil, errors.New("nn: devices: got an empty list, want names such as cpu:0, or auto")
	}
	for _, name := range names {
		if _, err := parseDevice(name); err != nil || name == "" {
			return nil, fmt.Errorf("nn: devices: got %q, want names such as cpu:0 and cuda:0, or auto alone", name)
		}
	}
	return names, nil
}

// computes are the types that a GPU computes with.
var computes = map[DType]cuda.Compute{Float32: cuda.Float32, BFloat16: cuda.BFloat16, TF32: cuda.TF32, Float16: cuda.Float16}

func (p *Program) openGPU() (err error) {
	p.shared.gpu, err = cuda.Open(p.device.number, cuda.Options{})
	return err
}

func (p *Program) onGPU(cfg Config) error {
	c := cuda.Config{GPU: p.shared.gpu, Stream: cfg.Seed, Type: computes[cfg.DType]}
	if cfg.Share != nil {
		c.Share = cfg.Share.executor.(*cuda.Executor)
	}
	e, err := cuda.New(p.plan, p.host, c)
	if err == nil {
		p.executor = e
	}
	return err
}
