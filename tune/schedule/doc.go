// Package schedule has the rules of a search that decide about trials while they train: which to stop, to pause, to let go
// on, and which to copy.
//
//	study := tune.Config{Space: space, Scheduler: &schedule.ASHA{MaxStep: 81, Guard: &schedule.Guard{}}, Samples: 200, Parallel: 8}
//
// ASHA compares trials at rungs, as they come; its Rule says whose way. Hyperband does so in brackets that wait for each
// other. MedianStopping and Percentile compare with other trials at the same step, Patience and Threshold look at one trial
// alone. PBT copies the best trials over the worst. Any and All put rules together. A Guard keeps ASHA from cutting trials
// that start slowly.
//
// All are state machines fed by the events of a study, without a clock and with randomness only from what they are handed:
// the same log gives the same decisions. Steps are what the trials report; the first step of a trial is 1. Values that are not
// finite never get here, unless the study asks for it; then they are worse than all others.
//
// Each decision says its rule, the value, the cutoff and the best of the trials that it was compared with. A
// scheduler with wrong fields stops nothing, and says what is wrong in each decision's rule; Validate says it before.
//
// Pruners (MaxStep, Reached, TrialPlateau, StudyPlateau, StudyTime, TrialTime, Number) end one trial or the whole study.
package schedule
