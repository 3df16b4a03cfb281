package program

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics/plot"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// An Output says where the results of a run go, and what each worker prints.
type Output struct {
	// Dir is the folder for the picture of the curves and for TensorBoard's scalars.
	Dir string

	// PrintHash prints the hash of the parameters at the end.
	PrintHash bool

	// AllRanks shows progress and the table of each worker; without it those of rank 0.
	AllRanks bool
}

// OutputFlags are the flags of an Output.
func OutputFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Value: "out", Usage: "folder for the picture of the curves and, under tensorboard, TensorBoard's scalars"},
		&cli.BoolFlag{Name: "print-hash", Usage: "print the SHA-256 of the parameters at the end"},
		&cli.BoolFlag{Name: "all-ranks", Usage: "show progress and the table of each worker, not of rank 0 alone"},
	}
}

// OutputFrom reads the flags.
func OutputFrom(c *cli.Context) Output {
	return Output{Dir: c.String("out"), PrintHash: c.Bool("print-hash"), AllRanks: c.Bool("all-ranks")}
}

// Prepare makes rank 0's folder: an error is better now than after hours.
func (o *Output) Prepare(rank int) error {
	if rank != 0 {
		return nil
	}
	return kvstore.Final(o.makeDir())
}

func (o *Output) makeDir() error {
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// Observers show the devices, progress and metrics of a run, and write TensorBoard's scalars.
func (o *Output) Observers(devices []string) []worker.Observer {
	progress := worker.NewProgress(os.Stdout)
	if !o.AllRanks {
		progress.OnlyRankZero()
	}
	return []worker.Observer{
		worker.NewGPUs(os.Stdout, devices),
		progress,
		worker.NewMetricsLines(os.Stdout),
		worker.TensorBoard(filepath.Join(o.Dir, "tensorboard")),
	}
}

// WriteHash prints the hash of the parameters, if it is asked for.
func (o *Output) WriteHash(params []nn.Param) {
	if o.PrintHash {
		fmt.Printf("parameters %x\n", Hash(params))
	}
}

// Report prints the table of the run, and draws rank 0's curves into a picture of this name. A run
// that was resumed at its end has no epochs, and nothing to report.
func (o *Output) Report(title, picture string, rank int, epochs []worker.EpochInfo) error {
	if len(epochs) == 0 {
		return nil
	}
	if rank == 0 || o.AllRanks {
		fmt.Println()
		if err := worker.WriteReport(os.Stdout, epochs); err != nil {
			return err
		}
	}
	if rank != 0 {
		return nil
	}
	// Another worker may have been rank 0 at the start.
	if err := o.makeDir(); err != nil {
		return err
	}
	path := filepath.Join(o.Dir, picture)
	if err := plot.Curves(path, worker.Curves(title, epochs)...); err != nil {
		return err
	}
	fmt.Println("Curves:", path)
	return nil
}
