package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/cuda/cublaslt"
	"github.com/paragon-train/paragon/internal/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/cuda/dl"
	"github.com/paragon-train/paragon/internal/cuda/drv"
	"github.com/paragon-train/paragon/internal/cuda/headers"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// deviceRow is the row that says whether there is a GPU.
const deviceRow = "GPU"

// needed are the libraries without which nothing runs; the others have a stand-in each.
var needed = map[dl.Name]bool{dl.CUDA: true, dl.CuDNN: true, dl.CuBLASLt: true}

func checkLibraries(c *checker) error {
	c.infof("host", "%s/%s, %d cores, kernel module %q", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), dl.KernelModule())
	if v, isSet := os.LookupEnv("CUDA_VISIBLE_DEVICES"); isSet {
		c.infof("CUDA_VISIBLE_DEVICES", "%q", v)
	}
	var search dl.Search
	var driver *drv.Driver
	lib, err := search.Open(dl.CUDA)
	if err == nil {
		driver, err = drv.Open(lib)
	}
	if err == nil {
		search.Major, _ = driver.Version()
	}
	var missing []string
	for _, f := range search.Report() {
		r := row{Name: string(f.Name), Status: ok, Detail: f.String()}
		if f.Err != nil {
			r.Status, r.Detail = info, f.Err.Error()
			if needed[f.Name] {
				r.Status = fail
				missing = append(missing, string(f.Name))
			}
		}
		c.row(r)
	}
	r := row{Name: deviceRow, Status: fail}
	var devices []drv.DeviceInfo
	if err == nil {
		devices, err = driver.Devices()
	}
	switch {
	case err != nil:
		r.Detail = err.Error()
	case c.device >= len(devices):
		r.Detail = fmt.Sprintf("got %d GPUs, want number %d", len(devices), c.device)
	case len(missing) > 0:
		r.Detail = fmt.Sprintf("%s; of its libraries %s cannot be used", devices[c.device], strings.Join(missing, " and "))
	default:
		r.Status, r.Detail = ok, devices[c.device].String()
	}
	if r.Status == ok {
		// The first thing done with it.
		if err := c.use(func(d *device) error {
			free, total, err := d.MemInfo()
			if err == nil {
				c.row(row{Name: "free memory", Status: info, Value: float64(free) / (1 << 30), Unit: "GiB", Detail: fmt.Sprintf("of %.1f GiB", float64(total)/(1<<30))})
			}
			return err
		}); err != nil {
			r.Status, r.Detail = fail, err.Error()
		}
	}
	c.row(r)
	c.clocks()
	return nil
}

// clocks are what the driver's own command says, if it is there.
func (c *checker) clocks() {
	const query = "name,uuid,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,temperature.gpu,power.draw,power.limit,utilization.gpu,memory.used,clocks_event_reasons.active"
	out, err := exec.CommandContext(c.ctx, "nvidia-smi", "--query-gpu="+query, "--format=csv,noheader").CombinedOutput()
	if err != nil {
		c.skipped("clocks, temperature, power", fmt.Sprintf("nvidia-smi: %v %s", err, firstLine(string(out))))
		return
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		c.infof(fmt.Sprintf("clocks, temperature, power of %d", i), "%s", line)
	}
}

func checkHeaders(c *checker) error {
	var search dl.Search
	result := headers.Check(headers.Folders(&search))
	if len(result.Files) == 0 {
		c.skipped("constants", "CUDA's header files are not installed")
		return nil
	}
	r := row{Name: "constants", Status: ok, Value: float64(result.Compared), Unit: "equal", Detail: fmt.Sprintf("of %d; in no header: %v; read: %v", len(headers.Values), result.Missing, result.Files)}
	if len(result.Differ) > 0 {
		r.Status, r.Detail = fail, fmt.Sprint(result.Differ)
	}
	c.row(r)
	return nil
}

func checkKernels(c *checker) error {
	return c.use(func(d *device) error {
		if _, err := c.module(d, "PTX", kernels.PTX()); err != nil {
			c.failed("PTX", err)
		}
		source, err := kernels.Source()
		if err != nil {
			return err
		}
		begun := time.Now()
		image, log, err := d.compile(source, d.Info().Compute)
		if errors.Is(err, dl.ErrNoLibrary) {
			c.skipped("NVRTC", err.Error())
		} else if err != nil {
			c.failed("NVRTC", err)
		} else {
			c.row(row{Name: "NVRTC", Status: ok, Value: time.Since(begun).Seconds(), Unit: "s", Detail: log})
			if _, err := c.module(d, "NVRTC's image", image); err != nil {
				c.failed("NVRTC's image", err)
			}
		}
		begun = time.Now()
		if err := d.withKernels(); err != nil {
			return err
		}
		c.row(row{Name: "the kernels as they are used", Status: ok, Value: time.Since(begun).Seconds(), Unit: "s"})
		return nil
	})
}

// module loads an image and looks at each kernel of it.
func (c *checker) module(d *device, what string, image []byte) (int, error) {
	begun := time.Now()
	m, err := d.LoadModule(image)
	if err != nil {
		return 0, err
	}
	took := time.Since(begun)
	var spilled []string
	most := 0
	for _, name := range kernels.Names() {
		f, err := d.Function(m, name)
		if err != nil {
			c.failed(what+": "+name, err)
			continue
		}
		registers, err1 := d.FunctionAttribute(f, drv.Registers)
		local, err2 := d.FunctionAttribute(f, drv.LocalBytes)
		threads, err3 := d.FunctionAttribute(f, drv.MaxThreadsPerBlock)
		if err := errors.Join(err1, err2, err3); err != nil {
			c.failed(what+": "+name, err)
			continue
		}
		most = max(most, registers)
		if local > 0 {
			spilled = append(spilled, fmt.Sprintf("%s %d bytes of %d registers, %d threads", name, local, registers, threads))
		}
	}
	c.row(row{Name: what, Status: ok, Value: took.Seconds(), Unit: "s", Detail: fmt.Sprintf("%d kernels, at most %d registers; with local memory: %v", len(kernels.Names()), most, spilled)})
	return len(kernels.Names()), d.UnloadModule(m)
}

// checkFacts asks what documentation leaves open. No answer is wrong.
func checkFacts(c *checker) error {
	return c.use(func(d *device) error {
		answer := func(library, name, holds, otherwise string, yes bool, detail string, err error) {
			r := row{Name: library + ": " + name, Status: info}
			switch {
			case err != nil:
				r.Status, r.Detail = fail, err.Error()
			case yes:
				r.Detail = "yes: " + holds + " (" + detail + ")"
			default:
				r.Detail = "NO: " + holds + "; so " + otherwise + " (" + detail + ")"
			}
			c.row(r)
		}
		if err := d.withCuDNN(); err != nil {
			c.failed("cuDNN", err)
		} else {
			c.infof("cuDNN", "%v from %s", d.dnn.Version(), d.dnn.Path())
			for _, f := range cudnn.Facts() {
				if c.late("cuDNN: " + f.Name) {
					continue
				}
				yes, detail, err := f.Check(d.dnn, d.s)
				answer("cuDNN", f.Name, f.Holds, f.Otherwise, yes, detail, err)
			}
		}
		if err := d.withCuBLASLt(); err != nil {
			c.failed("cuBLASLt", err)
		} else {
			c.infof("cuBLASLt", "%v from %s", d.blas.Version(), d.blas.Path())
			for _, f := range cublaslt.Facts() {
				if c.late("cuBLASLt: " + f.Name) {
					continue
				}
				yes, detail, err := f.Check(d.blas)
				answer("cuBLASLt", f.Name, f.Holds, f.Otherwise, yes, detail, err)
			}
		}
		pinned, err := pinsHeap(d)
		answer("driver", "memory mapped over Go's heap", "it is pinned, and copies go straight from and to the store's memory", "numbers go through a second pinned copy", pinned == nil,
			fmt.Sprint(pinned), err)
		return nil
	})
}
