// Package traceviewer opens Chrome traces in the viewer that the Go distribution has for them
// (Catapult's, which chrome://tracing is, too), and reads back what the viewer made of them:
// processes, lanes, slices and arrows of its own model, and its warnings.
//
// The viewer's files come from the Go distribution that is installed; nothing of it is in this
// repository.
package traceviewer
