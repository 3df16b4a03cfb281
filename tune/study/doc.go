// Package study reads the file of a search over a command, study.yaml:
//
//	name: mnist
//	metric: accuracy            # the program prints lines such as: accuracy=0.91 step=3
//	mode: max
//	command: ./mnist --data data/mnist --lr {lr} --optimizer {optimizer} --momentum {momentum}
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
// A parameter is {real: [low, high]}, {int: [low, high]}, bool, {choice: [values]} or just the list, {normal: [mean, deviation]},
// {lognormal: ...}, {grid: [values]}, or one value that stays; with log, step, default and when beside it. A suggester, a scheduler and
// a pruner is a word, or a word with options: those of the structs in packages suggest and schedule, in lower case.
//
// Names of parameters in braces stand for their values. A word that names a parameter which a trial does not have is left out, and so is
// the flag before it. A command without braces gets all parameters as flags, --lr=0.01.
//
// A mistake is an error that names line and field, and all mistakes of a file are told at once.
package study
