// Command trainload measures how fast a network trains on images that are read and decoded as it
// goes, beside the same steps on pixels in memory:
//
//	bench/trainload/trainload.sh FOLDER
//	go run ./bench/trainload --data photos/train --image-size 64 --model resnet18
//	go run ./bench/trainload --data rec/train.rec,tar/train-000000.tar --latency 20ms
//
// All take turns, A B C, B C A, with one network, so that the machine's other work meets each. With
// --latency the same files are also read from a stand-in of S3 in this process that lets so much
// time pass before the first byte of an answer, without a cache and from a full one; or from such a
// web server, where the program is built with -tags nobuckets.
//
// The ratio "of-memory" is the median of those of the turns; beside it stand the smallest and the
// largest one, and the ratio by the time of processors. "waits" is the share of the time in which
// steps waited for a batch and copied it, and "others" the largest share of the cores that other
// processes took in a spell. Turns in which that was much are left out if there are others. A ratio
// below its bar makes the exit code 1, unless all turns were disturbed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "trainload:", err)
		stop()
		os.Exit(1)
	}
}

// config is the command line.
type config struct {
	data, model, dtype                           string
	size, width, batch, steps, warm, turns, read int
	latency                                      time.Duration
	memory                                       bool

	build func(*gorgonia.Node, nn.ResNetConfig) *gorgonia.Node
}

// run compares training from memory with training from each place, in turns: what else runs on the
// machine meets all of them.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	c, dtype, err := parse(args)
	if err != nil {
		return err
	}
	places, forget, err := c.places(ctx)
	defer func() { err = errors.Join(err, forget()) }()
	if err != nil {
		return err
	}
	machine.Here().WriteHead(out, "bench/trainload")
	fmt.Fprintf(out, "note: %s of width %d, batches of %d, %d×%d pixels, %v, %d threads, %d turns of %d steps behind %d\n",
		c.model, cmp.Or(c.width, 64), c.batch, c.size, c.size, dtype, worker.DefaultThreads(1), c.turns, c.steps, c.warm)
	t, err := newTraining(ctx, c, dtype)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if c.memory {
		return t.measureMemory(ctx, out, places[1])
	}
	if err := c.warmUp(ctx, t, places); err != nil {
		return err
	}
	for turn := range c.turns {
		for k := range places {
			p := places[(turn+k)%len(places)]
			s, err := t.spell(ctx, p.images, turn, 0)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.spells = append(p.spells, s)
		}
	}
	return errors.Join(c.table(out, places)...)
}

// parse reads and checks the command line.
func parse(args []string) (c config, dtype nn.DType, err error) {
	f := flag.NewFlagSet("trainload", flag.ContinueOnError)
	f.StringVar(&c.data, "data", "", "images, with commas: a folder with one of each class, or a file")
	f.StringVar(&c.model, "model", "resnet18", "resnet18 or resnet50")
	f.StringVar(&c.dtype, "dtype", "float32", "float32 or bf16")
	f.IntVar(&c.width, "width", 0, "channels of the first stage; 0: 64")
	f.IntVar(&c.size, "image-size", 64, "width and height of what is trained on")
	f.IntVar(&c.batch, "batch", 32, "images in a step")
	f.IntVar(&c.steps, "steps", 20, "steps of a turn")
	f.IntVar(&c.warm, "warm", 5, "steps before them, which fill what is read ahead and are not measured")
	f.IntVar(&c.turns, "turns", 5, "turns of each")
	f.IntVar(&c.read, "readers", 0, "goroutines that read; 0: the default")
	f.DurationVar(&c.latency, "latency", 0, "read from a bucket's stand-in, too, with so much time before the first byte")
	f.BoolVar(&c.memory, "memory", false, "measure the memory of a process that reads 4, 64 and 1,000 batches ahead, in place of rates")
	if err := f.Parse(args); err != nil {
		return c, 0, err
	}
	if c.data == "" || f.NArg() > 0 || min(c.batch, c.steps, c.warm, c.turns, c.size) < 1 || c.latency < 0 {
		return c, 0, errors.New("want --data and numbers of at least 1")
	}
	if dtype, err = nn.ParseDType(c.dtype); err != nil {
		return c, 0, fmt.Errorf("--dtype: %w", err)
	}
	var ok bool
	if c.build, ok = map[string]func(*gorgonia.Node, nn.ResNetConfig) *gorgonia.Node{"resnet18": nn.ResNet18, "resnet50": nn.ResNet50}[c.model]; !ok {
		return c, 0, fmt.Errorf("--model: got %q, want resnet18 or resnet50", c.model)
	}
	return c, dtype, nil
}

// warmUp reads all images once, which fills the system's page cache and the bucket's cache on disk,
// and takes a spell, which warms up what computes.
func (c *config) warmUp(ctx context.Context, t *training, places []*place) (err error) {
	for _, p := range places[1:] {
		if p.alone, err = c.readAll(ctx, p.images); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	_, err = t.spell(ctx, places[0].images, 0, 0)
	return err
}

// measureMemory measures what read-ahead takes.
func (t *training) measureMemory(ctx context.Context, out io.Writer, p *place) error {
	for _, ahead := range []int{4, 64, 1000} {
		s, err := t.spell(ctx, p.images, 0, ahead)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "BenchmarkMemory/from=%s/prefetch=%d 1 %.0f peak-MB\n", p.name, ahead, float64(s.peak)/1e6)
	}
	return nil
}
