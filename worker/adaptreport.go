package worker

import (
	"math"
	"time"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/internal/member/control"
)

// reportEvery is the least time between two reports: a heartbeat takes the newest.
const reportEvery = time.Second

// report tells the scheduler how the job adapts. Training does not depend on it.
func (a *adaptation) report(s situation) {
	now := a.now()
	if !s.leads || now.Sub(a.reports.reported) < reportEvery {
		return
	}
	a.reports.reported = now
	text, err := control.EncodeAdaptation(a.described(a.withNoise(s)))
	if err == nil {
		err = a.store.ReportAdaptation(text)
	}
	if err != nil && !a.reports.misreported {
		a.reports.misreported = true
		a.logger.Warn("adaptive training: the report of a step could not be made", "error", err)
	}
}

// described is how the job adapts, as control has it.
func (a *adaptation) described(s situation) control.Adaptation {
	i, limits := a.info(s.workers), s.limits.configured
	r := control.Adaptation{
		Step: s.steps, Workers: s.workers, Nodes: s.nodes, LocalBatch: i.LocalBatch, Accumulation: i.Accumulation, GlobalBatch: i.Batch, InitialBatch: i.InitialBatch,
		Scale: i.Scale, Gain: i.Gain, Progress: i.Progress, WishedWorkers: a.wish.workers, WishReason: a.wish.reason, ChangeSeconds: a.wish.changeSeconds(),
		Limits: &control.AdaptationLimits{MaxBatch: limits.MaxBatch, MinLocal: limits.MinLocal, MaxLocal: s.limits.runs, Accumulation: limits.Accumulation},
	}
	if s.bounded {
		r.Noise = &control.AdaptationNoise{Sqr: s.noise.Sqr, Var: s.noise.Var}
		if !math.IsInf(i.NoiseScale, 0) {
			r.NoiseScale = i.NoiseScale
		}
	}
	if seconds := a.decider.stepTime(s); seconds > 0 {
		r.Throughput = float64(i.Batch) / seconds
		r.Goodput = r.Throughput * i.Gain / i.Scale
	}
	if m, ok := a.decider.model.(adapt.ParameterServer); ok {
		c := m.Cluster
		r.Model = &control.AdaptationModel{
			AlphaCompute: m.AlphaCompute, BetaCompute: m.BetaCompute, Contention: m.Contention, Latency: m.Latency, Worker: m.Worker, Server: m.Server, Node: m.Node, Memory: m.Memory,
			Update: m.Update, Gamma: m.Gamma, Bytes: c.Bytes, Servers: c.Servers, SharedMemory: c.SharedMemory,
			WorkerBandwidth: c.WorkerBandwidth, ServerBandwidth: c.ServerBandwidth, NodeBandwidth: c.NodeBandwidth,
		}
	}
	return r
}

// stepTime is the seconds of a step with the present batch, as measured, else as the model has it;
// 0: not known.
func (d *decider) stepTime(s situation) (seconds float64) {
	switch e := d.profile.find(s.nodes, s.workers, s.perRun); {
	case e.Steps > 0:
		seconds = e.Closing / float64(e.Steps)
		if e.Computed > 0 {
			seconds += float64(s.batch.Accumulation) * e.Computing / float64(e.Computed)
		}
	case d.model != nil:
		seconds = d.model.StepTime(s.nodes, s.workers, s.batch.LocalBatch, s.batch.Accumulation)
	}
	return seconds
}

// An AdaptInfo says how an adapting run does.
type AdaptInfo struct {
	// InitialBatch is M0.
	InitialBatch int
	// Batch is the global batch of a full step.
	Batch int
	// LocalBatch are the examples of a worker's run, and Accumulation its runs of a step before
	// the last one.
	LocalBatch, Accumulation int
	// Scale is Batch / InitialBatch.
	Scale float64
	// Gain is how many scale-invariant steps a full step is worth, in [1, Scale].
	Gain float64
	// NoiseScale is φ in examples, as far as the measurements bear it out: it is at least so
	// large, with a confidence of 95 %. Gain follows from it. NaN: it is not measured yet, and
	// Gain is 1.
	NoiseScale float64
	// Biased says that the newest measurements are differences of steps, which do not count for
	// NoiseScale.
	Biased bool
	// Progress is in scale-invariant steps, since the job began.
	Progress float64
	// Goodput is that of the epoch so far, in examples a second at the initial batch.
	Goodput float64
}

// info says how the run does with so many workers.
func (a *adaptation) info(workers int) AdaptInfo {
	s := &a.scaling
	noise, bounded := s.estimators.Bound()
	i := AdaptInfo{
		InitialBatch: a.initial(), Batch: a.batch.perStep() * workers, LocalBatch: a.batch.LocalBatch, Accumulation: a.batch.Accumulation,
		Scale: a.scale(workers), Gain: noise.Gain(a.scale(workers)), NoiseScale: noise.Scale(a.initial()), Biased: s.estimators.Biased(), Progress: s.progress.Steps,
	}
	if !bounded {
		i.NoiseScale = math.NaN()
	}
	return i
}

// epochInfo is info at the end of an epoch whose training took so long.
func (a *adaptation) epochInfo(workers int, train time.Duration) *AdaptInfo {
	i := a.info(workers)
	i.Goodput = (i.Progress - a.epochs.from) * float64(i.InitialBatch) / max(train.Seconds(), 1e-9)
	return &i
}
