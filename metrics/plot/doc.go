// Package plot draws the curves of package metrics into pictures.
//
// What to draw is data (metrics.Panel), which worker.Curves and tune.CurvePanel make of a run and
// of a search. Drawing needs a library with fonts, so it has a package of its own, and a trainer
// that draws nothing does not carry it:
//
//	err = plot.Curves("run.png", worker.Curves("my model", epochs)...)
package plot
