// Package show shows a search: while it runs as a table that is kept up to date,
// and afterwards as tables, files and pictures.
//
//	result, err := tune.Run(ctx, train, tune.Config{Observers: []tune.Observer{show.NewStatus(os.Stdout), show.NewFiles("runs/mnist")}, ...})
//
// A Status is what a person watches. Files writes what other programs read: of
// each trial its parameters, its reports as JSON lines and CSV, and TensorBoard
// event files. TrialsCSV, Curves and HTML are of a whole search, and Why says what
// was decided about one trial and why.
//
// All of them see a search as a tune.View and its events alone, so they show a
// log that is read again as well as a search that runs.
package show
