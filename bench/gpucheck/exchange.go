package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"gorgonia.org/gorgonia"
)

// exchangeLine is what a worker says who only pushes and pulls.
const exchangeLine = "exchange: %d parameters, %d bytes, %d rounds, %.4f ms\n"

var exchangePattern = regexp.MustCompile(`exchange: (\d+) parameters, (\d+) bytes, (\d+) rounds, ([0-9.]+) ms`)

// exchange is a worker of a job that pushes gradients of ResNet18 and pulls its values, round after
// round, and computes nothing: what the host can do at most. It says the median time of a round.
func exchange(ctx context.Context, s settings, out io.Writer) error {
	width, least, length := 64, 20, 3*time.Second
	if s.small {
		width, least, length = 8, 2, 0
	}
	g := gorgonia.NewGraph()
	nn.ResNet18(nn.Input(g, "images", 1, 3, 32, 32), nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: width})
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "nag", LearningRate: 0.01, Momentum: 0.9}); err != nil {
		return errors.Join(err, kv.Close())
	}
	var keys []string
	var grads, values [][][]float32
	bytes := 0
	for i, p := range nn.Parameters(g) {
		n := p.Shape().TotalSize()
		keys, bytes = append(keys, fmt.Sprintf("parameter %d", i)), bytes+4*n
		grads, values = append(grads, [][]float32{kvstore.Float32s(n)}), append(values, [][]float32{kvstore.Float32s(n)})
		for k := range grads[i][0] {
			grads[i][0][k] = float32(k%7) - 3
		}
		if err := kv.Init(ctx, keys[i], values[i][0]); err != nil {
			return errors.Join(err, kv.Close())
		}
	}
	var times []float64
	for begun := time.Now(); len(times) < least || time.Since(begun) < length && len(times) < 2000; {
		t := time.Now()
		errs := make([]error, len(keys))
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() { errs[i] = kv.PushPull(ctx, keys[i], grads[i], values[i]) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return errors.Join(err, kv.Close())
		}
		times = append(times, time.Since(t).Seconds()*1e3)
	}
	rounds := len(times)
	slices.Sort(times)
	fmt.Fprintf(out, exchangeLine, len(keys), bytes, rounds, times[rounds/2])
	return kv.Close()
}

// checkExchange measures the store without a GPU: gpucheck itself is the worker.
func (c *checker) checkExchange(launch string) error {
	name := "the store alone, 1 worker and server"
	if c.late(name) {
		return nil
	}
	text, _, err := c.runCommand(launch, "-n", "1", "-s", "1", "--", c.self, "-exchange", "-small="+strconv.FormatBool(c.small))
	m := exchangePattern.FindStringSubmatch(text)
	if m == nil {
		if err == nil {
			err = fmt.Errorf("there is no time in %q", firstLine(text))
		}
		c.failed(name, err)
		return nil
	}

	// The pattern takes numbers alone.
	bytes, _ := strconv.ParseFloat(m[2], 64)
	ms, _ := strconv.ParseFloat(m[4], 64)
	c.measured(name, 2*bytes/ms/1e6, "GB/s", "a round of %.1f MB each way in %.2f ms (median of %s): at most %.0f images/s at batch 512", bytes/1e6, ms, m[3], 512/ms*1e3)
	return nil
}
