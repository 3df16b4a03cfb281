// Command dataload measures how fast images are read, decoded, cropped at random, flipped and made
// float32, beside PyTorch's DataLoader with torchvision and Pillow on the same files.
// bench/dataload/dataload.sh installs the peer, makes photographs and runs it:
//
//	bench/dataload/dataload.sh
//	go run ./bench/dataload --folders FOLDER        without a peer
//
// Both read whole passes in turns, A B A B, with as many processes of the peer as readers of ours.
// A ratio is of the medians of the passes, in images a second; beside it stand the smallest and the
// largest ratio of two successive passes, and the ratio by CPU time. The peer is measured twice: as
// a model takes images (float32, normalised), and as uint8, which does less than ours.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/bench/internal/processes"
	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/sampler"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "dataload:", err)
		stop()
		os.Exit(1)
	}
}

// config is the command line.
type config struct {
	folders              string
	python, script       string
	readers, batch, size int
	turns                int
}

// run reads each folder by turns with our readers and, if there is a Python, with the peer's: once
// for each kind of pixels that the peer makes.
func run(ctx context.Context, args []string, out io.Writer) error {
	var c config
	f := flag.NewFlagSet("dataload", flag.ContinueOnError)
	f.StringVar(&c.folders, "folders", "", "folders of images, with commas; each has a folder for each class")
	f.StringVar(&c.python, "python", "", "a Python that has torch and torchvision; empty: no peer")
	f.StringVar(&c.script, "script", "bench/dataload/peer.py", "the peer's program")
	f.IntVar(&c.readers, "readers", 2, "goroutines of ours, and processes of the peer")
	f.IntVar(&c.batch, "batch", 64, "images in a batch")
	f.IntVar(&c.size, "size", 224, "width and height of what is read")
	f.IntVar(&c.turns, "turns", 5, "passes of each")
	if err := f.Parse(args); err != nil {
		return err
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"readers", c.readers}, {"batch", c.batch}, {"size", c.size}, {"turns", c.turns}} {
		if n.value < 1 {
			return fmt.Errorf("--%s: got %d, want at least 1", n.name, n.value)
		}
	}
	if c.folders == "" {
		return errors.New("--folders: got none, want at least one")
	}
	machine.Here().WriteHead(out, "bench/dataload")
	fmt.Fprintf(out, "note: %d readers, batches of %d, %d×%d pixels, %d passes each\n", c.readers, c.batch, c.size, c.size, c.turns)
	for folder := range strings.SplitSeq(c.folders, ",") {
		kinds := []string{"float32", "uint8"}
		if c.python == "" {
			kinds = []string{""}
		}
		for _, kind := range kinds {
			if err := c.row(ctx, out, folder, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// A pass is one reading of all images.
type pass struct {
	images       int
	seconds, cpu float64
}

func (p pass) rate() float64    { return float64(p.images) / p.seconds }
func (p pass) cpuRate() float64 { return float64(p.images) / p.cpu }

// row measures one folder. A kind of "" has no peer.
func (c config) row(ctx context.Context, out io.Writer, folder, kind string) error {
	images, err := data.OpenImages(ctx, folder, data.OpenOptions{
		Transforms: []transform.Transform{transform.RandomResizedCrop(c.size), transform.Flip()},
	})
	if err != nil {
		return err
	}
	defer images.Close()

	// This warms up.
	if _, err := c.ours(ctx, images, 0); err != nil {
		return err
	}
	var peer *processes.Process
	if kind != "" {
		peer, err = processes.Start(ctx, "peer", nil, c.python, c.script, folder, strconv.Itoa(c.readers), strconv.Itoa(c.batch), strconv.Itoa(c.size), kind)
		if err != nil {
			return err
		}
		defer func() { _ = peer.Stop() }()
		if line, err := peer.Line(); err != nil || string(line) != "ready" {
			return fmt.Errorf("peer: got %q, want ready: %w", line, errors.Join(err, peer.Stop()))
		}
	}
	var ours, theirs []pass
	for turn := range c.turns {
		p, err := c.ours(ctx, images, turn+1)
		if err != nil {
			return err
		}
		ours = append(ours, p)
		if peer == nil {
			continue
		}
		if p, err = ask(peer); err != nil {
			return err
		}
		if p.images != images.Len() {
			return fmt.Errorf("peer: got %d images, want %d", p.images, images.Len())
		}
		theirs = append(theirs, p)
	}
	write(out, filepath.Base(folder), kind, ours, theirs)
	return nil
}

// ours reads all images once.
func (c config) ours(ctx context.Context, images *data.Images, epoch int) (pass, error) {
	s, err := sampler.Split(images.Len(), 1, 0, sampler.Seed(1))
	if err != nil {
		return pass{}, err
	}
	begun, before := time.Now(), cpuTime()
	l, err := data.NewLoader(images, s.Epoch(epoch), data.LoaderConfig{
		BatchSize: c.batch, Last: data.ShortLast, Seed: 1, Epoch: epoch, Readers: c.readers,
		Augment: data.Augment{Mean: []float32{0.485, 0.456, 0.406}, Std: []float32{0.229, 0.224, 0.225}},
	})
	if err != nil {
		return pass{}, err
	}
	defer l.Close()
	p := pass{}
	for {
		b, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return pass{}, err
		}
		p.images += b.N
	}
	p.seconds, p.cpu = time.Since(begun).Seconds(), (cpuTime() - before).Seconds()
	if p.images != images.Len() {
		return pass{}, fmt.Errorf("got %d images, want %d", p.images, images.Len())
	}
	return p, nil
}

// ask has the peer read all images once.
func ask(peer *processes.Process) (p pass, err error) {
	if _, err := fmt.Fprintln(peer.In, "pass"); err != nil {
		return pass{}, fmt.Errorf("peer: %w", errors.Join(err, peer.Stop()))
	}
	line, err := peer.Line()
	if err != nil {
		return pass{}, errors.Join(err, peer.Stop())
	}
	if _, err := fmt.Sscan(string(line), &p.images, &p.seconds, &p.cpu); err != nil || !(p.seconds > 0 && p.cpu > 0) {
		return pass{}, fmt.Errorf("peer: got %q, want images, seconds and CPU seconds", line)
	}
	return p, nil
}

// write writes a line for each of the two.
func write(out io.Writer, folder, kind string, ours, theirs []pass) {
	name := "BenchmarkRead/folder=" + folder
	fmt.Fprintf(out, "%s/by=paragon 1 %.0f images/s %.0f images/cpu-s\n", name, median(ours, pass.rate), median(ours, pass.cpuRate))
	if len(theirs) == 0 {
		return
	}
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, ours[i].rate()/theirs[i].rate())
	}
	fmt.Fprintf(out, "%s/by=pytorch-%s 1 %.0f images/s %.0f images/cpu-s %.2f ratio %.2f smallest-ratio %.2f largest-ratio %.2f cpu-ratio\n",
		name, kind, median(theirs, pass.rate), median(theirs, pass.cpuRate), median(ours, pass.rate)/median(theirs, pass.rate),
		slices.Min(ratios), slices.Max(ratios), median(ours, pass.cpuRate)/median(theirs, pass.cpuRate))
}

func median(passes []pass, of func(pass) float64) float64 {
	values := make([]float64, len(passes))
	for i, p := range passes {
		values[i] = of(p)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// cpuTime is what all threads of the process have used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
