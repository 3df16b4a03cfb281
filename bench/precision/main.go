// Command precision measures how far the gradient of a step in 16 bits is from that in float32: of ResNet18 with the CIFAR stem and new
// parameters, on images of CIFAR-10 (PARAGON_TEST_DATA), by this repository's executors and by PyTorch's autocast from the very
// same parameters and images.
//
//	go run ./bench/precision --batch 64                       # the CPU executor in bfloat16, and PyTorch on the CPU where python3 has it
//	go run ./bench/precision --batch 128 --device cuda:0      # a GPU's bf16 and fp16, and PyTorch on it
//
// A line is: who, batch, |g16 − g32| / |g32| over all parameters, the same for the parameter where it is most, and the loss's error.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

//go:embed pytorch.py
var script string

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "precision:", err)
		os.Exit(1)
	}
}

type program struct {
	*nn.Program
	loss float64
}

func run(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("precision", flag.ContinueOnError)
	batch := flags.Int("batch", 64, "images")
	width := flags.Int("width", 64, "channels of the first stage")
	device := flags.String("device", "cpu:0", "where 16 bits are computed")
	seed := flags.Uint64("seed", 1, "of the parameters and of the choice of images")
	python := flags.String("python", "python3", "with PyTorch; empty: without")
	if err := flags.Parse(args); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "precision")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	images, labels, err := sample(*batch, *seed)
	if err != nil {
		return err
	}
	step := func(device string, d nn.DType) (*program, error) {
		g := gorgonia.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: *seed})
		x := nn.Input(g, "images", *batch, 3, 32, 32)
		logits := nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: *width})
		p, err := nn.Compile(nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", *batch)), nn.Config{Device: device, DType: d})
		if err != nil {
			return nil, err
		}
		in, err := p.Input("images")
		if err != nil {
			return nil, err
		}
		copy(in, images)
		l, err := p.Labels("labels")
		if err != nil {
			return nil, err
		}
		l.Set(labels)
		if err := p.Step(context.Background(), nil); err != nil {
			return nil, err
		}
		return &program{p, p.Loss()}, nil
	}
	want, err := step("cpu:0", nn.Float32)
	if err != nil {
		return err
	}
	defer want.Close()
	types := []nn.DType{nn.BFloat16}
	if *device != "cpu:0" {
		types = append(types, nn.Float16)
	}
	for _, d := range types {
		p, err := step(*device, d)
		if err != nil {
			return err
		}
		all, most, name := distance(p, want)
		fmt.Fprintf(out, "paragon %s %v\tbatch %d\tgradient %.4f\tmost in %s: %.3f\tloss %.2g\n", *device, d, *batch, all, name, most, math.Abs(p.loss-want.loss)/want.loss)
		if err := p.Close(); err != nil {
			return err
		}
	}
	if *python == "" {
		return nil
	}
	return torch(out, *python, folder, *device, *width, want, images, labels)
}

// sample draws images and brings them to mean 0 and deviation 1.
func sample(batch int, seed uint64) ([]float32, []int32, error) {
	where := os.Getenv("PARAGON_TEST_DATA")
	if where == "" {
		return nil, nil, errors.New("PARAGON_TEST_DATA does not say where cifar10 is")
	}
	train, _, err := data.LoadCIFAR10(filepath.Join(where, "cifar10"))
	if err != nil {
		return nil, nil, err
	}
	var x []float32
	var labels []int32
	size := len(train.Pixels(0))
	for k := range batch {
		i := int((uint64(k)*7919 + seed*104729) % uint64(train.Len()))
		for _, p := range train.Pixels(i) {
			x = append(x, (float32(p)/255-0.4734)/0.2516)
		}
		labels = append(labels, int32(train.Label(i)))
	}
	if size != 3*32*32 {
		return nil, nil, fmt.Errorf("an image has %d numbers, want 3072", size)
	}
	return x, labels, nil
}

func distance(p, want *program) (all, most float64, name string) {
	var off, size float64
	for i, q := range p.Params() {
		var o, s float64
		for k, w := range want.Params()[i].Gradient {
			d := float64(q.Gradient[k]) - float64(w)
			o += d * d
			s += float64(w) * float64(w)
		}
		off, size = off+o, size+s
		if d := math.Sqrt(o / s); d > most {
			most, name = d, q.Name
		}
	}
	return math.Sqrt(off / size), most, name
}

// torch has PyTorch do the same. What it reads is little-endian: float32 but for labels, which are int32.
func torch(out io.Writer, python, folder, device string, width int, p *program, images []float32, labels []int32) error {
	write := func(name string, x any) error {
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		return errors.Join(binary.Write(f, binary.LittleEndian, x), f.Close())
	}
	errs := []error{write("images", images), write("labels", labels)}
	for _, q := range p.Params() {
		errs = append(errs, write(q.Name, q.Value), write(q.Name+".gradient", q.Gradient))
	}
	file := filepath.Join(folder, "pytorch.py")
	if err := errors.Join(append(errs, os.WriteFile(file, []byte(script), 0o644))...); err != nil {
		return err
	}
	where, _, _ := strings.Cut(cmp.Or(device, "cpu"), ":")
	c := exec.Command(python, file, folder, where, fmt.Sprint(len(labels)), fmt.Sprint(width))
	c.Stdout, c.Stderr = out, os.Stderr
	return c.Run()
}
