// Package schedule has schedulers and pruners, the rules that decide about trials while they train:
// which to stop, pause, continue or copy.
//
//	study := tune.Config{Space: space, Scheduler: &schedule.ASHA{MaxStep: 81, Guard: &schedule.Guard{}}, Samples: 200, Parallel: 8}
//
// ASHA compares trials at rungs, asynchronously; its Rule selects a published variant. Hyperband
// compares them synchronously in brackets. Predict stops those that will hardly end as well as the
// best. MedianStopping and Percentile compare a trial with others at the same step; Patience and
// Threshold look at one trial alone. PBT copies the best trials over the worst. Any and All combine
// schedulers. A Guard keeps ASHA from stopping trials that start slowly.
//
// Schedulers are state machines driven by the events of a study. They have no clock and draw random
// numbers only from the source they are given, so the same log gives the same decisions. Steps are
// those that trials report; the first step of a trial is 1. Values that are not finite reach a
// scheduler only with Config.KeepDiverged; they rank below all others.
//
// Each decision has its rule, the value, the cutoff and the best of the trials it was compared
// with. A scheduler with invalid fields stops nothing and gives the error as the rule of each
// decision; Validate returns the error beforehand.
//
// Pruners (MaxStep, Reached, TrialPlateau, StudyPlateau, StudyTime, TrialTime, Number) end one
// trial or the whole study.
package schedule
