// Package adapt computes what a job needs in order to change its batch size and its number of
// replicas while it trains: how noisy the gradient is, the factor of the learning rate, the time of
// a step, and the configuration that makes the most progress per second.
//
// A user chooses an initial batch M0 and a learning rate for it. The scale S is the global batch
// over M0. A step at scale S is worth Noise.Gain(S) steps at M0, between 1, where the gradient is
// all signal, and S, where it is all noise; Gain(S)/S is the efficiency of an example. A Model
// predicts the seconds of a step. Goodput is throughput times efficiency. Best finds its maximum
// over local batch, accumulation and servers; a scheduler compares numbers of replicas by it.
//
// A job goes round this loop:
//
//   - Each step gives one Measurement, from the norms of its micro-gradients; an Estimator
//     (Estimators, by parameter group) averages them. With one micro-gradient a step it is the
//     Difference of two steps. Bound is the noise that a gain may count on, by how far the
//     measurements lie apart; Noise is the averages.
//   - The learning rate of that one step is multiplied by Factor of the step's scale, and the gain
//     is added to Progress, by which epochs end and schedules go.
//   - A Profile collects how long steps take; FitParameterServer (or FitAllReduce) makes a Model of
//     it.
//   - Goodput{Model, Noise, InitialBatch}.Best chooses the configuration for the present number of
//     replicas, or for another one.
//
// All of it is pure: no clock, no disk, no goroutine, and the same input gives the same output, bit
// for bit on one architecture. What has state (Estimator, Estimators, Profile) gives it for a
// checkpoint and restores it; none of these is safe for concurrent use. Functions and values may be
// used by several goroutines.
//
//	noise, measured := estimators.Bound()
//	model, err := adapt.FitParameterServer(profile.Timings(), adapt.Cluster{Bytes: 44 << 20, Servers: 2})
//	...
//	goodput := adapt.Goodput{Model: model, Noise: noise, InitialBatch: 64}
//	choice, err := goodput.Best(nodes, replicas, adapt.Limits{MaxBatch: 1024, MaxLocal: 256, Accumulation: true})
//
// Sources: AdaScale (arXiv 2007.05105) for gain and progress, McCandlish et al. (arXiv 1812.06162)
// for the noise scale, LEGW (arXiv 1901.08256) for its warm-up, Pollux (arXiv 2008.12260) for
// efficiency, goodput and the model of all-reduce. The model of a parameter server is our own.
package adapt
