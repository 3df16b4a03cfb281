package metrics_test

import (
	"fmt"
	"os"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

// The scores of an epoch: losses weighted by their batches, and the share of right answers. The
// padding of a short batch is left out.
func ExampleAccuracy() {
	var loss metrics.Mean
	var accuracy metrics.Accuracy
	loss.Add(0.5, 3)
	accuracy.AddLogits([]float32{2, 1, 0, 3, 5, 4}, []int32{0, 1, 1}, 2)
	loss.Add(1, 1)
	accuracy.AddLogits([]float32{0, 1, 0, 0}, []int32{1}, 2)
	fmt.Printf("loss %.3f, %d of %d right\n", loss.Value(), accuracy.Right, accuracy.Total)
	// Output: loss 0.625, 3 of 4 right
}

// A file that TensorBoard shows, and how to read it again.
func ExampleEventFile() {
	dir, err := os.MkdirTemp("", "tensorboard")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	now := time.Unix(1_700_000_000, 0)
	file, err := metrics.NewEventFile(dir, "", 0, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	for step, loss := range []float64{2.5, 1.5} {
		if err := file.Add(int64(step), now, metrics.Scalar{Tag: "train/loss", Value: loss}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := file.Close(); err != nil {
		fmt.Println(err)
		return
	}
	f, err := os.Open(file.Path())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	events, err := metrics.ReadEvents(f)
	for _, e := range events {
		for _, s := range e.Scalars {
			fmt.Println(e.Step, s.Tag, s.Value)
		}
	}
	fmt.Println(err)
	// Output:
	// 0 train/loss 2.5
	// 1 train/loss 1.5
	// <nil>
}

// Two workers each have a part of the examples: their sums are added, and the values are those of
// all of them.
func ExampleMetric() {
	var top2 metrics.Metric = metrics.TopK{K: 2}
	first, second := make([]float64, top2.Sums()), make([]float64, top2.Sums())
	top2.Add(first, metrics.Batch{Width: 3, Outputs: []float32{3, 2, 1, 1, 2, 3}, Labels: []int32{0, 0}})
	top2.Add(second, metrics.Batch{Width: 3, Outputs: []float32{1, 5, 3}, Labels: []int32{2}})
	for i, v := range second {
		first[i] += v
	}
	fmt.Printf("%s %.2f\n", top2.Names()[0], top2.Values(first)[0])
	// Output: top2 0.67
}
