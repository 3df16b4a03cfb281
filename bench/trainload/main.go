// Command trainload measures how fast a network trains on images that are read from files as it goes, beside the same steps on pixels in memory:
//
//	go run ./bench/trainload --data photos/train --image-size 64 --model resnet18
//	go run ./bench/trainload --data packed/train.rec --latency 20ms
//
// Both take turns, A B A B, with one network, so that the machine's other work meets both. The ratio is of the medians; beside it stand those of
// successive turns, the ratio by the time of processors, which other work on the machine disturbs less, and the share of the time that steps waited for images. With --latency the files come from a web server of this process that lets so
// much time pass before the first byte of an answer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
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

type config struct {
	data, model                            string
	size, width, batch, steps, turns, read int
	latency                                time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var c config
	f := flag.NewFlagSet("trainload", flag.ContinueOnError)
	f.StringVar(&c.data, "data", "", "images: a folder with one of each class, or a file")
	f.StringVar(&c.model, "model", "resnet18", "resnet18 or resnet50")
	f.IntVar(&c.width, "width", 0, "channels of the first stage; 0: 64")
	f.IntVar(&c.size, "image-size", 64, "width and height of what is trained on")
	f.IntVar(&c.batch, "batch", 32, "images in a step")
	f.IntVar(&c.steps, "steps", 20, "steps of a turn")
	f.IntVar(&c.turns, "turns", 5, "turns of each")
	f.IntVar(&c.read, "readers", 0, "goroutines that read; 0: the default")
	f.DurationVar(&c.latency, "latency", 0, "serve the file over HTTP, with so much time before the first byte")
	if err := f.Parse(args); err != nil {
		return err
	}
	if c.data == "" || f.NArg() > 0 || min(c.batch, c.steps, c.turns, c.size) < 1 || c.latency < 0 {
		return errors.New("want --data and numbers of at least 1")
	}
	build, ok := map[string]func(*gorgonia.Node, nn.ResNetConfig) *gorgonia.Node{"resnet18": nn.ResNet18, "resnet50": nn.ResNet50}[c.model]
	if !ok {
		return fmt.Errorf("--model: got %q, want resnet18 or resnet50", c.model)
	}
	url := c.data
	if c.latency > 0 {
		address, end, err := serve(filepath.Dir(c.data), c.latency)
		if err != nil {
			return err
		}
		defer end()
		url = address + "/" + filepath.Base(c.data)
	}
	files, err := data.OpenImages(ctx, url, data.OpenOptions{Transforms: []transform.Transform{transform.RandomResizedCrop(c.size), transform.Flip()}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	memory, err := inMemory(ctx, files, min(files.Len(), c.batch*c.steps))
	if err != nil {
		return err
	}

	g := gorgonia.NewGraph()
	logits := build(nn.Input(g, "images", c.batch, 3, c.size, c.size), nn.ResNetConfig{Classes: 1000, Stem: nn.ImageNet, Width: c.width})
	program, err := nn.Compile(nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", c.batch)), nn.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	store, err := kvstore.Create(ctx, "local")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: store, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "nag", LearningRate: 1e-3, Momentum: 0.9}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trainer.Close()) }()
	b := bench{c, program, trainer}
	if _, err := b.turn(ctx, memory, 0); err != nil { // warms up caches, of the disk too
		return err
	}
	if _, err := b.turn(ctx, files, 0); err != nil {
		return err
	}
	var inMemory, fromFiles []turn
	for k := range c.turns {
		m, err := b.turn(ctx, memory, k)
		if err != nil {
			return err
		}
		f, err := b.turn(ctx, files, k)
		if err != nil {
			return err
		}
		inMemory, fromFiles = append(inMemory, m), append(fromFiles, f)
	}
	machine.Here().WriteHead(out, "bench/trainload")
	fmt.Fprintf(out, "note: %s of width %d, batches of %d, %d×%d pixels, %d turns of %d steps\n", c.model, c.width, c.batch, c.size, c.size, c.turns, c.steps)
	var ratios []float64
	for k := range inMemory {
		ratios = append(ratios, fromFiles[k].rate/inMemory[k].rate)
	}
	m, file := median(inMemory), median(fromFiles)
	fmt.Fprintf(out, "BenchmarkTrain/from=memory 1 %.1f images/s %.2f images/cpu-s\n", m.rate, m.cpuRate)
	fmt.Fprintf(out, "BenchmarkTrain/from=files/latency=%v 1 %.1f images/s %.2f images/cpu-s %.4f of-memory %.4f smallest-ratio %.4f largest-ratio %.4f cpu-ratio %.4f waits\n",
		c.latency, file.rate, file.cpuRate, file.rate/m.rate, slices.Min(ratios), slices.Max(ratios), file.cpuRate/m.cpuRate, file.waits)
	return nil
}

// A turn is how fast some steps were.
type turn struct{ rate, cpuRate, waits float64 } // images a second, and a second of a processor; share of the time

// median is that of each number.
func median(list []turn) turn {
	middle := func(of func(turn) float64) float64 {
		var all []float64
		for _, t := range list {
			all = append(all, of(t))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return turn{middle(func(t turn) float64 { return t.rate }), middle(func(t turn) float64 { return t.cpuRate }), middle(func(t turn) float64 { return t.waits })}
}

// A bench trains one network.
type bench struct {
	config
	program *nn.Program
	trainer *worker.Trainer
}

// turn trains for some steps of an epoch. The first batch, for which reading begins, is not measured.
func (b *bench) turn(ctx context.Context, set data.Dataset, epoch int) (result turn, err error) {
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: []*nn.Program{b.program}, Dataset: repeated{set, b.batch * (b.steps + 1)}, Workers: 1, Seed: 1, Readers: b.read,
		Augment: data.Augment{Mean: data.ImageNetMean, Std: data.ImageNetStd},
	})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, feed.Close()) }()
	if err := feed.Begin(ctx, epoch, 0); err != nil {
		return result, err
	}
	var begin time.Time
	var waited, cpu time.Duration
	for step := range b.steps + 1 {
		before := time.Now()
		counts, err := feed.Next(ctx)
		if err != nil {
			return result, err
		}
		waited += time.Since(before)
		if step == 0 {
			begin, waited, cpu = time.Now(), 0, cpuTime()
		}
		if err := b.trainer.Step(ctx, counts); err != nil {
			return result, err
		}
	}
	if err := b.trainer.Flush(ctx); err != nil {
		return result, err
	}
	took := time.Since(begin).Seconds()
	// The first step is measured, and the reading of its batch is not.
	images := float64(b.batch * (b.steps + 1))
	return turn{images / took, images / (cpuTime() - cpu).Seconds(), waited.Seconds() / took}, nil
}

// A repeated data set has as many examples as are asked for, over and over the same.
type repeated struct {
	data.Dataset
	n int
}

func (r repeated) Len() int { return r.n }

func (r repeated) Read(i int, dst []uint8) (int, error) {
	return r.Dataset.Read(i%r.Dataset.Len(), dst)
}

// LabelWidth implements data.ExampleReader.
func (r repeated) LabelWidth() int { return 0 }

// ReadExample implements data.ExampleReader.
func (r repeated) ReadExample(ctx context.Context, i int, e *data.Example) (err error) {
	if x, ok := r.Dataset.(data.ExampleReader); ok {
		return x.ReadExample(ctx, i%r.Dataset.Len(), e)
	}
	e.Label, err = r.Read(i, e.Pixels)
	return err
}

// Announce implements data.Announcer.
func (r repeated) Announce(ctx context.Context, indices []int) {
	if a, ok := r.Dataset.(data.Announcer); ok {
		for k := range indices {
			indices[k] %= r.Dataset.Len()
		}
		a.Announce(ctx, indices)
	}
}

// pixels is a data set in memory. Unlike data.ImageSet it takes any label.
type pixels struct {
	shape  data.Shape
	all    []uint8
	labels []int
}

func (p *pixels) Len() int          { return len(p.labels) }
func (p *pixels) Shape() data.Shape { return p.shape }

func (p *pixels) Read(i int, dst []uint8) (int, error) {
	copy(dst, p.all[i*p.shape.Size():(i+1)*p.shape.Size()])
	return p.labels[i], nil
}

// inMemory reads the first n images once, as they are in an epoch.
func inMemory(ctx context.Context, m *data.Images, n int) (*pixels, error) {
	order := func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
	l, err := data.NewLoader(m, order, data.LoaderConfig{BatchSize: 16, Raw: true, Last: data.ShortLast})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	p := &pixels{shape: m.Shape()}
	for {
		b, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		p.all = append(p.all, b.Pixels...)
		for _, label := range b.Labels {
			p.labels = append(p.labels, int(label))
		}
	}
}

// serve serves a folder over HTTP, with a pause before each answer.
func serve(dir string, latency time.Duration) (address string, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	files := http.FileServer(http.Dir(dir))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		files.ServeHTTP(w, r)
	}), ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // ends with Close
	}()
	return "http://" + l.Addr().String(), func() {
		_ = server.Close()
		<-ended
	}, nil
}

// cpuTime is what all threads of the process have used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
