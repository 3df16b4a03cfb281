package kvstore_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/kvstore"
)

// recorded is what a store has recorded, by metric.
func recorded(kv kvstore.Store) map[telemetry.Metric]float64 {
	all := map[telemetry.Metric]float64{}
	for _, s := range kvstore.RecorderOf(kv).Record().Samples {
		all[s.Metric] += s.Value
	}
	return all
}

// Counts and times add up, the newest of the others stays, and what is not known changes nothing.
func TestReports(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	kv.ReportStep(kvstore.StepReport{Epoch: 3, Examples: 8, GlobalBatch: 16, Total: 40 * time.Millisecond, Compute: 30 * time.Millisecond, Wait: 5 * time.Millisecond,
		Data: 2 * time.Millisecond, Save: time.Millisecond, Loss: 2, LearningRate: 0.1, GradientNorm: 4})
	kv.ReportStep(kvstore.StepReport{Epoch: 4, Examples: 7, Total: 60 * time.Millisecond, Loss: 1.5, LearningRate: math.NaN(), GradientNorm: math.NaN()})
	kv.ReportStep(kvstore.StepReport{Epoch: 4, Total: time.Minute, Wait: -time.Second, Loss: math.NaN(), LearningRate: 0.05, GradientNorm: math.NaN()})
	kv.ReportEvaluation(kvstore.Evaluation{Loss: 0.7, Accuracy: 0.8, Others: []kvstore.Score{{Name: "top5", Value: 0.9}}})
	kv.ReportCheckpoint(3 * time.Second)
	if got := kvstore.RecorderOf(kv).Record().Scores; !slices.Equal(got, []telemetry.Score{{Name: "top5", Value: 0.9}}) {
		t.Errorf("the scores are %v, want top5", got)
	}
	got := recorded(kv)
	now := float64(time.Now().UnixNano()) / 1e9
	for m, want := range map[telemetry.Metric]float64{
		telemetry.Steps: 3, telemetry.Examples: 15, telemetry.StepSeconds: 60.1, telemetry.StepBuckets: 2, telemetry.ComputeSeconds: 0.03, telemetry.WaitSeconds: 0.005,
		telemetry.DataSeconds: 0.002, telemetry.SaveSeconds: 0.001, telemetry.Epoch: 4, telemetry.Loss: 1.5, telemetry.LearningRate: 0.05, telemetry.GradientNorm: 4,
		telemetry.GlobalBatch: 16, telemetry.TestLoss: 0.7, telemetry.TestAccuracy: 0.8, telemetry.Checkpoints: 1, telemetry.SaveDuration: 3,
	} {
		if math.Abs(got[m]-want) > 1e-9 {
			t.Errorf("%v is %v, want %v", m, got[m], want)
		}
	}
	for _, m := range []telemetry.Metric{telemetry.LastStepTime, telemetry.CheckpointTime} {
		if age := now - got[m]; age < -60 || age > 600 {
			t.Errorf("%v is %v, want a time just passed", m, got[m])
		}
	}
	if got[telemetry.ResidentBytes] < 1<<20 || got[telemetry.CPUSeconds] <= 0 {
		t.Errorf("the process has %v bytes and took %v s of CPU", got[telemetry.ResidentBytes], got[telemetry.CPUSeconds])
	}
	kv.ReportStep(kvstore.StepReport{Examples: 1, Loss: math.NaN()})
	if loss := recorded(kv)[telemetry.Loss]; !math.IsNaN(loss) {
		t.Errorf("the loss is %v after a step whose loss was NaN, want NaN", loss)
	}
	if n := testing.AllocsPerRun(100, func() { kv.ReportStep(kvstore.StepReport{Examples: 1, Loss: 1}) }); n != 0 {
		t.Errorf("ReportStep allocates %v times, want 0", n)
	}
}

// go test ./kvstore -run '^$' -bench Report
func BenchmarkReportStep(b *testing.B) {
	kv, err := kvstore.Create(b.Context(), "local")
	if err != nil {
		b.Fatal(err)
	}
	defer kv.Close()
	r := kvstore.StepReport{Epoch: 3, Examples: 8, GlobalBatch: 16, Total: 40 * time.Millisecond, Compute: 30 * time.Millisecond, Loss: 2, LearningRate: 0.1, GradientNorm: 4}
	b.ReportAllocs()
	for b.Loop() {
		kv.ReportStep(r)
	}
}

// What a worker says of its GPUs goes to the scheduler, by the GPU.
func TestGPUsAreReported(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	kv.ReportGPUs([]kvstore.GPUReport{{MemoryUsed: 1 << 30, MemoryTotal: 2 << 30, Load: 0.5, Temperature: 60, Power: 300}, {MemoryUsed: 7}})
	var got []telemetry.Sample
	for _, s := range kvstore.RecorderOf(kv).Record().Samples {
		if s.Metric == telemetry.GPUMemoryUsed || s.Metric == telemetry.GPUPower {
			got = append(got, s)
		}
	}
	want := []telemetry.Sample{{Metric: telemetry.GPUMemoryUsed, Value: 1 << 30}, {Metric: telemetry.GPUMemoryUsed, Index: 1, Value: 7},
		{Metric: telemetry.GPUPower, Value: 300}, {Metric: telemetry.GPUPower, Index: 1}}
	if !slices.Equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
}
