// Package suggest has suggesters, which propose the parameters of the next trial.
//
// Sobol spreads trials evenly. TPE, GP and CMAES learn from finished trials, each with its own
// model: TPE is fast with any number of trials and any kind of parameter, GP needs the fewest
// trials, up to some hundreds of them, and CMAES suits many trials on continuous parameters. MOTPE
// and NSGA2 are for several objectives. Auto chooses between GP, TPE and, for several objectives,
// MOTPE; it is the default of study files. External asks a program of the user. Limit wraps a
// suggester to bound the trials that run at once, and Repeat to run each set of parameters several
// times and learn from the mean.
//
//	study := tune.Config{Space: space, Suggester: &suggest.TPE{}, Samples: 100, Parallel: 8}
//
// The zero value of each is ready to use. All are pure functions of the tune.View, the trial's
// number and the random source; they keep only caches between calls. Completed trials count by
// their result. Where trials report more than one step, pruned and paused trials count by the end
// that is predicted from their parameters and steps (Auto, GP, TPE); else they rank below completed
// ones, those with more steps first. Failed trials do not count. Running trials count as mediocre
// (TPE), or have the results that the model expects (GP; where trials report more than one step,
// draws from it), so that concurrent trials do not all try the same point. No parameters are
// proposed twice before all have been tried, but by Repeat.
package suggest
