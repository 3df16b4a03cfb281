package worker

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/gpustat"
)

// gpuReader is a gpustat.Reader, or a test's.
type gpuReader interface {
	Read() ([]gpustat.GPU, error)
	Close() error
}

// A GPUs tells a person how the GPUs of this worker do: a table of them when the run begins, and
// after each epoch their memory, load, temperature and power at that moment. Where nothing can be
// said it says once why: a static build has no telemetry.
type GPUs struct {
	out io.Writer
	// reader is nil where there is none, and why says why; that is nil, too, without a GPU.
	reader gpuReader
	why    error
}

// NewGPUs returns an observer for a worker on these devices ("cuda:0", "cpu:0"). Without a GPU
// among them it is silent.
func NewGPUs(out io.Writer, devices []string) *GPUs {
	g := &GPUs{out: out}
	if !slices.ContainsFunc(devices, func(d string) bool { return strings.HasPrefix(d, "cuda") }) {
		return g
	}
	r, err := gpustat.Open()
	if g.why = err; err == nil {
		g.reader = r
	}
	return g
}

// read returns the GPUs that this process may use; after an error it asks no more.
func (g *GPUs) read() []gpustat.GPU {
	if g.reader == nil {
		return nil
	}
	gpus, err := g.reader.Read()
	if err != nil {
		g.why = err
		fmt.Fprintf(g.out, "GPU telemetry ended: %v\n", err)
		g.End()
	}
	return gpustat.Visible(gpus)
}

// Begin shows the table. It is for a person: training goes on without.
func (g *GPUs) Begin(Run) {
	if g.why != nil {
		fmt.Fprintf(g.out, "No GPU telemetry: %v\n", g.why)
	}
	if gpus := g.read(); g.reader != nil {
		_ = gpustat.WriteTable(g.out, gpus)
	}
}

// Step does nothing.
func (g *GPUs) Step(StepInfo) {}

// Epoch says how each GPU does.
func (g *GPUs) Epoch(e EpochInfo) {
	for _, gpu := range g.read() {
		fmt.Fprintf(g.out, "Epoch %d: %v\n", e.Epoch, gpu)
	}
}

// End gives the library back.
func (g *GPUs) End() {
	if g.reader != nil {
		_ = g.reader.Close()
		g.reader = nil
	}
}
