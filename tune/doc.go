// Package tune searches hyper-parameters: it proposes parameters, trains with
// them, stops what does not pay, and says which were best and why.
//
// A study is one search. It consists of trials, numbered from 0. A trial has
// parameters, taken from the Space by a Suggester, and is trained by a
// Trainable, which reports metrics at increasing steps. At each report a
// Scheduler decides: continue, stop, pause, or go on from another trial's
// checkpoint. Run drives a study over parallel slots; Study.Ask, Study.Tell and
// Study.Finish are the same search for those who drive it themselves.
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
// Reports are keyed by (trial, step): telling one again changes nothing and gets
// the same answer. Report blocks until the scheduler has decided; an error that
// answers errors.Is for ErrStop or ErrPause tells the trainable to return.
//
// The first report of a trial must have the study's metric; later ones may leave
// it out, and are kept and shown but not judged. A value that is not finite
// counts as worse than all that are, and ends the trial unless
// Config.KeepDiverged is set. A trial that returns without a report, that
// panics, or that is silent for longer than Config.ReportTimeout has failed, and
// is tried again as often as the budget of its class of failure says.
//
// # State
//
// All that happens is an Event of one append-only log, a line of JSON each. A
// report and what was decided about it are one line, which is on the disk before
// the trial hears of it. Suggesters and schedulers are functions of the log:
// they see no clock, and randomness is derived from the seed of the study and
// the number of the trial. So a search that was killed goes on as if nothing
// had happened (Config.Resume), and Replay derives every decision of a log
// again, also of a parallel search, and says where one differs.
package tune
