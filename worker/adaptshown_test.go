package worker

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

// Who reads the output, the table or the picture sees the batch and what it is worth.
func TestTheBatchIsShown(t *testing.T) {
	first := AdaptInfo{InitialBatch: 64, Batch: 64, LocalBatch: 32, Scale: 1, Gain: 1, NoiseScale: math.NaN(), Goodput: 100}
	last := AdaptInfo{InitialBatch: 64, Batch: 256, LocalBatch: 64, Accumulation: 1, Scale: 4, Gain: 2.9, NoiseScale: 511.6, Goodput: 297.4}
	epochs := []EpochInfo{
		{Epoch: 0, Losses: []float64{2, 2}, Batches: []int{64, 64}, Adapt: &first, Train: time.Second, Examples: 64},
		{Epoch: 1, Losses: []float64{1, 1}, Batches: []int{64, 256}, Adapt: &last, Train: time.Second, Examples: 160, Spans: []Span{
			{Epoch: 1, Workers: 2, Batch: 64, Steps: 1, Train: time.Second}, {Epoch: 1, First: 1, Workers: 2, Batch: 256, Steps: 1, Train: time.Second}}},
	}
	var out bytes.Buffer
	p := &Progress{out: &out, columns: func() int { return 0 }}
	p.Begin(Run{Workers: 2, Epochs: 2, StepsPerEpoch: 5, Adapt: &first})
	p.Step(StepInfo{Epoch: 1, Step: 1, Steps: 5, Loss: 1, Examples: 64, Batch: 256})
	for _, e := range epochs {
		p.Epoch(e)
	}
	if err := WriteReport(&out, epochs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Adaptive batch: 64 (32 a worker), initially 64\n",
		", batch 256\n",
		"Epoch 0: batch 64 (32 a worker), scale 1.00, gain 1.00, noise scale not measured, goodput 100 examples/s\n",
		"Epoch 1: batch 256 (64 × 2 runs a worker), scale 4.00, gain 2.90, noise scale 512, goodput 297 examples/s\n",
		"Epoch 1: steps 1 to 1 with 2 workers and batch 256: 1.0 steps/s\n",
		"batch   scale    gain  noise scale  goodput/s",
		"  256  4.0000  2.9000          512        297",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", out.String(), want)
		}
	}
	panels := Curves("run", epochs)
	batch := panels[len(panels)-1]
	if len(batch.Series) != 2 || batch.Series[0].X[3] != 2 || batch.Series[0].Y[3] != 256 || len(batch.Series[1].X) != 1 {
		t.Errorf("got the panel %+v, want the batch of 4 steps and one noise scale", batch)
	}
	wantPoints(t, panels)
}
