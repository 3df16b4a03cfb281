package adapt

import "math"

// AllReduce is Pollux's model of a job that combines its gradients by all-reduce (arXiv 2008.12260, section 3.2), in seconds:
//
//	T_grad(m)   = AlphaCompute + BetaCompute·m
//	T_net(N, K) = 0                                       for K = 1
//	            = AlphaReplicas + BetaReplicas·(K−2)      for N = 1, inside a node
//	            = AlphaNodes + BetaNodes·(K−2)            for N > 1
//	T_close     = (T_grad^Gamma + T_net^Gamma)^(1/Gamma)
//	step        = s·T_grad + T_close
//
// Gamma is between 1, where computing and the exchange follow each other, and 10, where they overlap.
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

// Parameters in the order of the fields, which is the order of a fit's vector.
const (
	alphaCompute = iota
	betaCompute
	alphaNodes
	betaNodes
	alphaReplicas
	betaReplicas
	gamma
	allReduceParameters
)

func allReduceOf(x *vector) AllReduce {
	return AllReduce{x[alphaCompute], x[betaCompute], x[alphaNodes], x[betaNodes], x[alphaReplicas], x[betaReplicas], x[gamma]}
}

// FitAllReduce fits the model to timings of distinct configurations; those of the same one are averaged first. It minimises
//
//	RMSE(log T_grad − log Accumulation) + RMSE(log T_close − log Step)
//	+ 0.001·(Gamma−1)² + 0.01·((BetaNodes/AlphaNodes)² + (BetaReplicas/AlphaReplicas)²)
//
// with every parameter at least 1e-8 and Gamma in [1, 10]. Where data are missing: with one local batch AlphaCompute is half of the mean
// Accumulation; without several nodes, or without several replicas on one node, the parameters of that exchange are 1e-8, and those between
// nodes at least 1.1 times those inside a node; with at most two replicas both betas are 1e-8. So a placement that was never tried looks
// good, and gets tried.
//
// The parameters themselves are not unique where the model overlaps computing and exchange; predictions are what the fit is for. The
// result depends on the set of timings alone.
func FitAllReduce(t []Timing) (AllReduce, error) {
	rows, err := distinct(t)
	if err != nil {
		return AllReduce{}, err
	}
	f := newAllReduceFit(rows)
	best, least := vector{}, math.Inf(1)
	for _, start := range f.starts() {
		if x, value := minimize(f, &f.box, start); value < least {
			best, least = x, value
		}
	}
	a := allReduceOf(&best)
	if !f.betweenNodes {
		a.AlphaNodes = max(a.AlphaNodes, 1.1*a.AlphaReplicas)
		a.BetaNodes = max(a.BetaNodes, 1.1*a.BetaReplicas)
	}
	return a, nil
}
