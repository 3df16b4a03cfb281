package adapt

import "math"

// AllReduce is Pollux's model of a job that combines its gradients by all-reduce (arXiv 2008.12260,
// section 3.2), in seconds:
//
//	T_grad(m)   = AlphaCompute + BetaCompute·m
//	T_net(N, K) = 0                                       for K = 1
//	            = AlphaReplicas + BetaReplicas·(K−2)      for N = 1, inside a node
//	            = AlphaNodes + BetaNodes·(K−2)            for N > 1
//	T_close     = (T_grad^Gamma + T_net^Gamma)^(1/Gamma)
//	step        = s·T_grad + T_close
//
// Gamma is between 1, where computing and the exchange follow each other, and 10, where they
// overlap.
type AllReduce struct{ AlphaCompute, BetaCompute, AlphaNodes, BetaNodes, AlphaReplicas, BetaReplicas, Gamma float64 }

// tiny stands for a time of nothing, as in the reference: logarithms stay finite.
const tiny = 1e-8

// StepTime implements Model.
func (a AllReduce) StepTime(nodes, replicas, localBatch, accumulation int) float64 {
	c := a.costs(nodes, replicas)
	return c.time(float64(localBatch), float64(accumulation))
}

func (a AllReduce) costs(nodes, replicas int) stepCosts {
	c := stepCosts{alpha: a.AlphaCompute, beta: a.BetaCompute, exchange: tiny, gamma: a.Gamma}
	switch {
	case replicas <= 1:
	case nodes <= 1:
		c.exchange = a.AlphaReplicas + a.BetaReplicas*beyondTwo(replicas)
	default:
		c.exchange = a.AlphaNodes + a.BetaNodes*beyondTwo(replicas)
	}
	return c
}

func beyondTwo(replicas int) float64 { return math.Max(float64(replicas-2), tiny) }
