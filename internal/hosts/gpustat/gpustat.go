// Package gpustat reads the telemetry of a machine's NVIDIA GPUs: memory, load, temperature and
// power, from the driver's library NVML.
//
//	r, err := gpustat.Open()        // ErrBuild, ErrNoDriver: there is no telemetry, and the reason
//	defer r.Close()
//	gpus, err := r.Read()
//	err = gpustat.WriteTable(os.Stdout, gpus)
//
// It needs cgo on Linux; other builds compile, and Open says that they have no telemetry. A value
// that a GPU does not report, as is common in virtual machines, is NaN, and n/a in the table.
package gpustat

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

var (
	// ErrBuild says that this program cannot ask.
	ErrBuild = errors.New("this build has no GPU telemetry: it was built without cgo")
	// ErrNoDriver says that there is no driver, or none that answers.
	ErrNoDriver = errors.New("no GPU telemetry")
)

// A GPU is what is known of one GPU at one time. Numbers that are not known are NaN.
type GPU struct {
	// Index is in the driver's order, that of the bus, which is not that of cuda:0.
	Index int

	UUID, Name  string
	MemoryUsed  float64 // bytes
	MemoryTotal float64

	// Load is the share of the last second or so in which anything ran, 0 to 1.
	Load float64

	Temperature float64 // °C
	Power       float64 // W
}

// number writes a number, or that it is not known.
func number(format string, v float64) string {
	if math.IsNaN(v) {
		return "n/a"
	}
	return fmt.Sprintf(format, v)
}

// memory is the memory in GiB.
func (g GPU) memory() string {
	return number("%.1f", g.MemoryUsed/(1<<30)) + "/" + number("%.1f GiB", g.MemoryTotal/(1<<30))
}

// String is the changing part in one line.
func (g GPU) String() string {
	return fmt.Sprintf("GPU %d: memory %s, load %s, %s, %s", g.Index, g.memory(), number("%.0f%%", 100*g.Load), number("%.0f °C", g.Temperature), number("%.0f W", g.Power))
}

// WriteTable writes a row for each GPU.
func WriteTable(w io.Writer, gpus []GPU) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "GPU\tUUID\tNAME\tMEMORY\tLOAD\tTEMPERATURE\tPOWER")
	for _, g := range gpus {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Index, g.UUID, g.Name, g.memory(), number("%.0f%%", 100*g.Load), number("%.0f °C", g.Temperature), number("%.0f W", g.Power))
	}
	return t.Flush()
}

// Visible are those GPUs that CUDA_VISIBLE_DEVICES names by UUID; all, if it names none so.
func Visible(gpus []GPU) []GPU { return visible(gpus, os.Getenv("CUDA_VISIBLE_DEVICES")) }

func visible(gpus []GPU, names string) []GPU {
	if names == "-1" {
		return nil
	}
	if !strings.Contains(names, "GPU-") {
		return gpus
	}
	named := strings.Split(names, ",")
	return slices.DeleteFunc(slices.Clone(gpus), func(g GPU) bool { return !slices.Contains(named, g.UUID) })
}
