// Package suggest has the suggesters of a search: what proposes the parameters of the next trial.
//
// Sobol spreads trials evenly. TPE, GP and CMAES learn from the trials that are over, each by its own model of which
// parameters are good: TPE is quick with any number of trials and any kind of parameter, GP needs the fewest trials on few
// and mostly continuous parameters, CMAES is for many trials on continuous ones. External asks a program of the user's.
// Limit and Repeat change what another suggester is told: how many trials may run at once, and the mean of several runs
// of the same parameters.
//
//	study := tune.Config{Space: space, Suggester: &suggest.TPE{}, Samples: 100, Parallel: 8}
//
// The zero value of each is ready for use. All are pure functions of what tune.View shows, the trial's number and the
// random source; what they keep between calls only saves work. Complete trials count by their result. Pruned and paused ones
// count as worse than complete ones, those that got further first. Failed ones do not count. Running ones are taken for
// mediocre ones (TPE), or have their results imagined (GP), so that many trials at once do not pile up on one point.
// A space that is finite gets no parameters twice until all have been tried.
package suggest
