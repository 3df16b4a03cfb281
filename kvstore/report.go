package kvstore

import (
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
)

// A StepReport is what a training loop says of a step that is done. Numbers that are not known are
// NaN; times and counts that are not known are 0.
type StepReport struct {
	Epoch uint64
	// Examples are this worker's, and GlobalBatch those of all workers.
	Examples    int
	GlobalBatch int
	// Total is the time since the step before was reported, without what is no training.
	Total time.Duration
	// Compute, Wait, Data and Save are parts of Total: in forward and backward passes, waiting
	// for the store, waiting for the next batch, and writing checkpoints.
	Compute time.Duration
	Wait    time.Duration
	Data    time.Duration
	Save    time.Duration
	// Loss is the mean over this worker's examples of the step. Without Examples it does not
	// count, nor with NoLoss, where it is not known. A NaN is a loss, too.
	Loss         float64
	NoLoss       bool
	LearningRate float64
	// GradientNorm is the norm of the mean gradient over all workers.
	GradientNorm float64
}

// An Evaluation is what a worker has measured of the model on data that it does not train on.
type Evaluation struct {
	Loss float64
	// Accuracy is from 0 to 1.
	Accuracy float64
	// Others are further scores, by names of one's own. The first 12 are shown, under names of
	// at most 32 letters, digits and "_".
	Others []Score
}

// A Score is one number of an Evaluation.
type Score struct {
	Name  string
	Value float64
}

// A Reporter takes what a training loop says of itself. The next heartbeat carries the newest
// values and the sums to the scheduler, where launch ctl and metrics show them. The calls may be
// made concurrently and cost well below a microsecond; but for ReportEvaluation and ReportGPUs they
// neither lock nor allocate. worker.Fit makes them; a training loop of its own calls ReportStep
// after each step.
type Reporter interface {
	ReportStep(StepReport)
	ReportEvaluation(Evaluation)
	// ReportCheckpoint says that a checkpoint is complete, and how long it took. The worker
	// that completes it calls it.
	ReportCheckpoint(took time.Duration)
	// ReportCheckpointFolder says whether this worker has a place for checkpoints. Where no
	// worker has one `launch ctl stop` is refused, unless forced.
	ReportCheckpointFolder(there bool)
	// ReportCheckpointFailure says that this worker could not write its part of a checkpoint.
	ReportCheckpointFailure()
	// ReportGPUs says how the GPUs of this worker do, in the order in which its process sees
	// them.
	ReportGPUs([]GPUReport)
}

// A GPUReport is how one GPU does at the moment. Numbers that are not known are NaN.
type GPUReport struct {
	MemoryUsed  float64 // bytes
	MemoryTotal float64 // bytes
	Load        float64 // share of the time at work
	Temperature float64 // °C
	Power       float64 // W
}

// A reports takes what a training loop says of itself.
type reports struct {
	recorder *telemetry.Recorder
	trace    *trace.Recorder
}

var _ trace.Owner = (*reports)(nil)

// Trace takes the spans of this process.
func (r *reports) Trace() *trace.Recorder { return r.trace }

// ReportStep reports a step.
func (s *reports) ReportStep(r StepReport) {
	s.trace.StepDone()
	c := s.recorder
	total := r.Total.Seconds()
	c.Add(telemetry.Steps, 1)
	c.Add(telemetry.Examples, float64(max(0, r.Examples)))
	c.Add(telemetry.StepSeconds, seconds(r.Total))
	c.Observe(telemetry.StepBuckets, total)
	c.Add(telemetry.ComputeSeconds, seconds(r.Compute))
	c.Add(telemetry.WaitSeconds, seconds(r.Wait))
	c.Add(telemetry.DataSeconds, seconds(r.Data))
	c.Add(telemetry.SaveSeconds, seconds(r.Save))
	c.Set(telemetry.Epoch, float64(r.Epoch))
	if r.Examples > 0 && !r.NoLoss {
		c.Set(telemetry.Loss, r.Loss)
	}
	setKnown(c, telemetry.LearningRate, r.LearningRate)
	setKnown(c, telemetry.GradientNorm, r.GradientNorm)
	if r.GlobalBatch > 0 {
		c.Set(telemetry.GlobalBatch, float64(r.GlobalBatch))
	}
	c.Set(telemetry.LastStepTime, unixSeconds())
	if clock := s.trace.Clock(); clock != nil {
		c.AddStep(telemetry.Step{End: clock.Now() / 1000, Total: r.Total, Compute: r.Compute, Wait: r.Wait, Data: r.Data, Save: r.Save})
	}
}

// ReportEvaluation reports an evaluation.
func (s *reports) ReportEvaluation(e Evaluation) {
	others := make([]telemetry.Score, len(e.Others))
	for i, score := range e.Others {
		others[i] = telemetry.Score(score)
	}
	c := s.recorder
	c.SetTogether(func() {
		c.Set(telemetry.TestLoss, e.Loss)
		c.Set(telemetry.TestAccuracy, e.Accuracy)
		c.SetScores(others)
	})
}

func (s *reports) ReportCheckpoint(took time.Duration) {
	c := s.recorder
	c.Add(telemetry.Checkpoints, 1)
	c.Set(telemetry.CheckpointTime, unixSeconds())
	c.Set(telemetry.SaveDuration, seconds(took))
}

func (s *reports) ReportCheckpointFolder(there bool) {
	x := 0.0
	if there {
		x = 1
	}
	s.recorder.Set(telemetry.CheckpointFolder, x)
}

func (s *reports) ReportGPUs(gpus []GPUReport) {
	c := s.recorder
	for i, g := range gpus {
		c.SetAt(telemetry.GPUMemoryUsed, i, g.MemoryUsed)
		c.SetAt(telemetry.GPUMemoryTotal, i, g.MemoryTotal)
		c.SetAt(telemetry.GPULoad, i, g.Load)
		c.SetAt(telemetry.GPUTemperature, i, g.Temperature)
		c.SetAt(telemetry.GPUPower, i, g.Power)
	}
}

func (s *reports) ReportCheckpointFailure() { s.recorder.Add(telemetry.CheckpointFailures, 1) }

// seconds is a time that a counter can take.
func seconds(d time.Duration) float64 { return max(0, d.Seconds()) }

func unixSeconds() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// setKnown sets a gauge, which keeps its value where the number is not known.
func setKnown(c *telemetry.Recorder, m telemetry.Metric, x float64) {
	if !math.IsNaN(x) {
		c.Set(m, x)
	}
}
