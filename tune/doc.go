// Package tune searches hyper-parameters: it proposes parameters, trains with
// them, prunes bad trials early, and reports which trials were best and why.
//
// A study is one search. It consists of trials, numbered from 0. A trial has
// parameters, taken from the Space by a Suggester, and is trained by a
// Trainable, which reports metrics at increasing steps. At each report a
// Scheduler decides: continue, stop, pause, or go on from another trial's
// checkpoint. Run drives a study over parallel slots; Study.Ask, Study.Tell and
// Study.Finish are the same search for a program that runs the trials itself.
//
//	space := tune.Space{
//		tune.Real("lr", 1e-4, 1e-1).Log(),
//		tune.Choice("optimizer", "sgd", "adam"),
//		tune.Real("momentum", 0, 0.99).When("optimizer", "sgd"),
//	}
//	result, err := tune.Run(ctx, func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
//		for epoch := 1; epoch <= 10; epoch++ {
//			accuracy := train(ctx, p.Float("lr"))
//			if err := r.Report(epoch, map[string]float64{"accuracy": accuracy}); err != nil {
//				return err
//			}
//		}
//		return nil
//	}, tune.Config{Space: space, Metric: "accuracy", Mode: tune.Max, Samples: 20, Parallel: 4})
//
// # Rules
//
// Reports are keyed by (trial, step): reporting a step again changes nothing and
// returns the same answer. Report blocks until the scheduler has decided; an error that
// answers errors.Is for ErrStop or ErrPause tells the trainable to return.
//
// The first report of a trial must have the study's metric. Later ones may leave
// it out; they are recorded and shown, but not judged. A value that is not finite
// ranks below all finite values, and ends the trial unless Config.KeepDiverged is
// set. A trial that returns without a report, panics, or does not report for
// Config.ReportTimeout has failed. It is retried within the budget of its class of
// failure (Retries).
//
// # State
//
// Everything that happens is an Event in one append-only log, one line of JSON
// each. A report and its decision are one line, which is synced to disk before the
// trial receives the decision. Suggesters and schedulers are functions of the log:
// they see no clock, and randomness is derived from the seed of the study and
// the number of the trial. So a search that was killed resumes without a
// difference (Config.Resume), and Replay recomputes every decision of a log, also
// of a parallel search, and reports the first that differs.
package tune
