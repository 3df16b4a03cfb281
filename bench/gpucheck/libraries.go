package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
	"github.com/paragon-train/paragon/internal/compute/cuda/headers"
)

// deviceRow is the row that says whether there is a GPU.
const deviceRow = "GPU"

// needed are the libraries without which nothing runs; the others have a stand-in each.
var needed = map[dl.Name]bool{dl.CUDA: true, dl.CuDNN: true, dl.CuBLASLt: true}

// checkLibraries opens what every other section needs, and does a first thing with the GPU. Its
// rows say whether there is a GPU that can be used.
func checkLibraries(c *checker) error {
	c.infof("host", "%s/%s, %d cores, kernel module %q", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), dl.KernelModule())
	if v, isSet := os.LookupEnv("CUDA_VISIBLE_DEVICES"); isSet {
		c.infof("CUDA_VISIBLE_DEVICES", "%q", v)
	}
	driver, search, err := gputest.Open()
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
		if err := c.checkMemory(driver); err != nil {
			r.Status, r.Detail = fail, err.Error()
		}
	}
	c.row(r)
	c.clocks()
	return nil
}

// checkMemory takes the GPU into use and asks how much of its memory is free.
func (c *checker) checkMemory(driver *drv.Driver) error {
	ctx, err := driver.NewContext(c.device)
	if err != nil {
		return err
	}
	var free, total int64
	err = ctx.Do(func() (err error) { free, total, err = ctx.MemInfo(); return })
	if err = errors.Join(err, ctx.Close()); err == nil {
		c.measured("free memory", float64(free)/(1<<30), "GiB", "of %.1f GiB", float64(total)/(1<<30))
	}
	return err
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
