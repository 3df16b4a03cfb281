// Package curvetest judges searches that stop trials early, on made-up families of learning curves
// and a simulated clock.
//
// A Problem is a search space with a learning curve for each of its points: the accuracy, in points
// of 0 to 100, that a training reports at each step. Its best final accuracy is known. Problems
// come in kinds, which differ in what an early report says about the end: see Kinds. Each kind has
// problems for Tuning constants by and others for Judging.
//
// Simulate runs a search on a problem with a number of workers, until it has trained for as long as
// so many full trainings. The search is a Search: the trials and decisions of a real tune.Study
// (NewStudySearch), or another library's. At parts of the budget it scores the regret: the best
// final accuracy minus the final accuracy, without noise, of the trial that the search would name
// best, which is that with the best newest report. A pruned trial is scored by what its training
// would have ended with.
//
//	for _, p := range curvetest.Judging() {
//		s, err := curvetest.NewStudySearch(p, curvetest.StudyConfig{Suggester: &suggest.Auto{}, Scheduler: &schedule.ASHA{MaxStep: p.Last}, Workers: 8})
//		...
//		outcome, err := curvetest.Simulate(p, s, curvetest.Config{Workers: 8, Seed: 1})
//	}
//
// The same problem, rule and seed give the same outcome, except for the measured times.
package curvetest
