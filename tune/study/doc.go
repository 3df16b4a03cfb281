// Package study reads the file of a search over a command, study.yaml:
//
//	name: mnist
//	metric: accuracy            # the program prints lines such as: accuracy=0.91 step=3
//	mode: max
//	command: ./train --lr {lr} --optimizer {optimizer} --momentum {momentum}
//	space:
//	  lr: {real: [1e-4, 1e-1], log: true}
//	  optimizer: [sgd, adam]
//	  momentum: {real: [0, 0.99], when: {optimizer: sgd}}
//	samples: 20
//	suggester: tpe
//	scheduler:
//	  asha: {max_step: 27, guard: true}
//	resources: {slots: 2, servers: 1}
//
// A parameter is {real: [low, high]}, {int: [low, high]}, bool, {choice: [values]} or just the
// list, {normal: [mean, deviation]}, {lognormal: ...}, {grid: [values]}, or one constant; with log,
// step, default and when beside it. A suggester, a scheduler and a pruner is a name, or a name with
// options: the fields of the structs in packages suggest and schedule, in lower case.
//
// Without a scheduler it is predict, where there is one metric: trials that report more than once
// are stopped when they will hardly end among the best. fifo lets all train to their end. A study
// that began with fifo keeps it.
//
// objectives: {accuracy: max, latency: min} in place of metric and mode searches for the trade-offs
// between several metrics, with suggester motpe (the default then) or nsga2. constraints: [latency
// <= 20, memory <= 8] are bounds that a good trial keeps.
//
// fidelity: {parameter: width, low: 16, high: 128} is one more parameter, such as the share of the
// data or the width of the model, that is not searched: trials begin at low, and the scheduler has
// the promising ones run again at low·eta, low·eta² (eta: 3) up to high, whose results count. A
// level is the step of its result, and promotion, asha, hyperband and predict take their steps from
// the levels. Without a scheduler it is promotion.
//
// deadline: 18:00, or 2026-11-29T18:00, or 2h after the search began, is when the best has to be
// known: what cannot end by then does not start.
//
// A name in braces stands for the value of the parameter. A word with a parameter that is inactive
// in a trial is left out, and so is the flag before it. A command without braces gets all
// parameters as flags, --lr=0.01.
//
// {trial} and {seed} are the trial's number and seed, unless they are parameters. {checkpoint} is a
// folder for a command that can go on: it continues from the files there, if any, and writes its
// state there, each file under another name that it then renames, before it prints a line with
// metrics. Such a command is paused, promoted, tried again, and takes over another trial's state
// (pbt) without losing its work. Other commands begin anew.
//
// hosts: FILE names the hosts of the trials, one on each line: host[:port] [slots=N] [gpus=N]
// [cpus=N], as for launch.
//
// The error of a file names line and field of every mistake in it.
package study
