// Package show presents a search: while it runs as a table that is updated in place,
// and afterwards as tables, files and pictures.
//
//	result, err := tune.Run(ctx, train, tune.Config{Observers: []tune.Observer{show.NewStatus(os.Stdout), show.NewFiles("runs/mnist")}, ...})
//
// A Status is for people. Files writes what other programs read: for each trial its
// parameters, its reports as JSON lines and CSV, and TensorBoard event files.
// TrialsCSV, Curves and HTML describe a whole search, and Why lists the decisions
// about one trial with their reasons.
//
// All of them see a search only as a tune.View and its events, so they work on a log
// as well as on a running search.
package show
