package worker

import (
	"math"
	"time"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/internal/member/control"
)

// reportEvery is the least time between two reports: a heartbeat takes the newest.
const reportEvery = time.Second

// report tells the scheduler how the job adapts, for its status and for whoever divides a cluster
// among jobs. Rank 0 does.
func (d *decider) report(nodes, workers int) {
	a, now := d.a, d.now()
	store := a.trainer.cfg.Store
	if store.Rank() != 0 || now.Sub(d.reported) < reportEvery {
		return
	}
	d.reported = now
	i := a.info(workers)
	noise, bounded := a.estimators.Bound()
	limits := a.cfg.limits()
	r := control.Adaptation{
		Step: a.trainer.Steps(), Workers: workers, Nodes: nodes, LocalBatch: i.LocalBatch, Accumulation: i.Accumulation, GlobalBatch: i.Batch, InitialBatch: i.InitialBatch,
		Scale: i.Scale, Gain: i.Gain, Progress: i.Progress, WishedWorkers: d.workers, WishReason: d.reason, ChangeSeconds: d.changeSeconds(),
		Limits: &control.AdaptationLimits{MaxBatch: limits.MaxBatch, MinLocal: limits.MinLocal, MaxLocal: a.maxLocal(), Accumulation: limits.Accumulation},
	}
	if bounded {
		r.Noise = &control.AdaptationNoise{Sqr: noise.Sqr, Var: noise.Var}
		if !math.IsInf(i.NoiseScale, 0) {
			r.NoiseScale = i.NoiseScale
		}
	}
	if seconds := d.stepTime(nodes, workers); seconds > 0 {
		r.Throughput = float64(i.Batch) / seconds
		r.Goodput = r.Throughput * i.Gain / i.Scale
	}
	if m, ok := d.model.(adapt.ParameterServer); ok {
		c := m.Cluster
		r.Model = &control.AdaptationModel{
			AlphaCompute: m.AlphaCompute, BetaCompute: m.BetaCompute, Contention: m.Contention, Latency: m.Latency, Worker: m.Worker, Server: m.Server, Node: m.Node, Memory: m.Memory,
			Update: m.Update, Gamma: m.Gamma, Bytes: c.Bytes, Servers: c.Servers, SharedMemory: c.SharedMemory,
			WorkerBandwidth: c.WorkerBandwidth, ServerBandwidth: c.ServerBandwidth, NodeBandwidth: c.NodeBandwidth,
		}
	}
	text, err := control.EncodeAdaptation(r)
	if err == nil {
		err = store.ReportAdaptation(text)
	}
	if err != nil && !d.misreported { // training does not depend on it
		d.misreported = true
		a.trainer.cfg.Logger.Warn("adaptive training: the report of a step could not be made", "error", err)
	}
}

// stepTime is the seconds of a step with the present batch, as measured, else as the model has it;
// 0: not known.
func (d *decider) stepTime(nodes, workers int) (seconds float64) {
	b := d.a.batch
	switch e := d.profile.find(nodes, workers, d.a.runOf()); {
	case e.Steps > 0:
		seconds = e.Closing / float64(e.Steps)
		if e.Computed > 0 {
			seconds += float64(b.Accumulation) * e.Computing / float64(e.Computed)
		}
	case d.model != nil:
		seconds = d.model.StepTime(nodes, workers, b.LocalBatch, b.Accumulation)
	}
	return seconds
}

// wishWorkers chooses how many workers the job should have, where it may choose that (launch
// --adapt-workers).
func (d *decider) wishWorkers(nodes, workers int) {
	least, most := d.a.trainer.cfg.Store.WorkerRange()
	if most == 0 {
		return
	}
	onNode := (workers-1)/nodes + 1
	choice := adapt.ReplicaChoice{Present: workers, Least: least, Most: most, Explored: d.profile.MostReplicas(), ChangeSeconds: d.changeSeconds(), Goodput: func(workers int) float64 {
		c, err := d.goodput().Best((workers-1)/onNode+1, workers, d.limits(workers, leastEfficiency))
		if err != nil {
			return 0 // no batch of so many workers is within the limits
		}
		return c.Goodput
	}}
	to, reason, err := choice.Wish()
	if err != nil {
		to, reason = 0, "" // the range has no number in it: no wish
	}
	d.workers, d.reason = to, reason
}

// madeChange counts a change of the membership that began then.
func (d *decider) madeChange(begin time.Time) {
	d.changes++
	d.changing += d.now().Sub(begin)
}

// changeSeconds is what a change of the membership has cost this worker on average; 0: there was
// none.
func (d *decider) changeSeconds() float64 {
	if d.changes == 0 {
		return 0
	}
	return d.changing.Seconds() / float64(d.changes)
}
