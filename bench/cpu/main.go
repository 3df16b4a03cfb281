// Command cpu measures training on the processor.
//
//	cpu scaling    what a step would take on up to 64 cores, from the pieces that its operations are cut into
//	cpu profile    which operations a step is spent on
//	cpu curve      losses of the model of examples/gpt, with weights and batches that PyTorch repeats them by
//
// A training step is forward, backward and an update by SGD with momentum or AdamW, on random data. Results
// are lines in the format of Go's benchmarks, so that benchstat reads them. Two more commands serve
// programs that measure: serve takes turns with a peer (see bench/peers), and train is a worker of
// a job.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/urfave/cli/v2"
)

const peakTime = 20 * time.Millisecond

func main() {
	if err := newApp().Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "cpu:", err)
		os.Exit(1)
	}
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "cpu",
		Usage:           "measure training on the processor",
		HideHelpCommand: true,
		Commands: []*cli.Command{
			scalingCommand(), curveCommand(), profileCommand(), serveCommand(), trainCommand(),
		},
	}
}

// header writes what benchstat keeps with the results.
func header(c *cli.Context) error {
	path, err := f32.FromEnv()
	if err != nil {
		return err
	}
	peak := f32.MeasurePeak(path, peakTime) / 1e9
	machine.Here().WriteHead(c.App.Writer, "bench/cpu")
	_, err = fmt.Fprintf(c.App.Writer, "path: %v, peak of a core %.0f GFLOP/s\ncommand: %s\n", path, peak, strings.Join(os.Args[min(1, len(os.Args)):], " "))
	return err
}
