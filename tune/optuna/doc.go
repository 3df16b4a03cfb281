// Package optuna moves studies to and from Optuna, as a JSON file.
//
// The file is one object:
//
//	{"version": 1, "study_name": "mnist", "directions": ["maximize"], "metric_names": ["accuracy"], "trials": [
//	  {"number": 0, "state": "COMPLETE", "values": [0.91], "params": {"lr": 0.01, "optimizer": "sgd"},
//	   "distributions": {"lr": {"name": "FloatDistribution", "attributes": {"low": 0.0001, "high": 0.1, "log": true, "step": null}},
//	                     "optimizer": {"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam"]}}},
//	   "intermediate_values": {"1": 0.7, "2": 0.91}, "user_attrs": {"latency": 12.5}, "system_attrs": {}}]}
//
// Names and values are those of optuna.trial.FrozenTrial; a distribution is what
// optuna.distributions.distribution_to_json writes. metric_names may be null. state is COMPLETE,
// PRUNED, FAIL, RUNNING or WAITING; values is null for trials that are not COMPLETE. Numbers that
// JSON does not have are texts: "NaN", "Infinity", "-Infinity". docs/how-to/optuna.md has a script
// of Python that writes such a file from a study, and reads it into one.
//
// A metric besides the objectives is a user attribute. Constraints are system_attrs["constraints"],
// as Optuna has them: at most 0 where they hold.
package optuna
