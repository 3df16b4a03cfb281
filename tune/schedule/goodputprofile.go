package schedule

import (
	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/internal/member/control"
)

// readProfile reads what a job says of its training; what is not readable says nothing.
func readProfile(text string) *control.Adaptation {
	if text != "" {
		if a, err := control.DecodeAdaptation(text); err == nil {
			return a
		}
	}
	return &control.Adaptation{}
}

// goodputOf is the best goodput that a job predicts for replicas over nodes; nil: it has no model
// yet.
func goodputOf(a *control.Adaptation) func(nodes, replicas int) float64 {
	m := a.Model
	if m == nil || a.InitialBatch < 1 {
		return nil
	}
	cluster := adapt.Cluster{Bytes: m.Bytes, Servers: m.Servers, SharedMemory: m.SharedMemory, WorkerBandwidth: m.WorkerBandwidth,
		ServerBandwidth: m.ServerBandwidth, NodeBandwidth: m.NodeBandwidth}
	if cluster.Validate() != nil {
		return nil
	}
	g := adapt.Goodput{InitialBatch: a.InitialBatch, Model: adapt.ParameterServer{AlphaCompute: m.AlphaCompute, BetaCompute: m.BetaCompute, Contention: m.Contention,
		Latency: m.Latency, Worker: m.Worker, Server: m.Server, Node: m.Node, Memory: m.Memory, Update: m.Update, Gamma: m.Gamma, Cluster: cluster}}
	// The noise was not measured yet: a larger batch counts for nothing.
	g.Noise.Sqr = 1
	if n := a.Noise; n != nil {
		g.Noise = adapt.Noise{Sqr: n.Sqr, Var: n.Var}
	}
	var limits adapt.Limits
	if l := a.Limits; l != nil {
		limits = adapt.Limits{MaxBatch: l.MaxBatch, MinLocal: l.MinLocal, MaxLocal: l.MaxLocal, Accumulation: l.Accumulation}
	}
	return func(nodes, replicas int) float64 {
		best, err := g.Best(nodes, replicas, limits)
		if err != nil {
			return 0
		}
		return best.Goodput
	}
}
