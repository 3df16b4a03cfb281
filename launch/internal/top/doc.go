// Package top is `launch top`: what the processes of a job do at the moment, in a terminal and for
// scripts.
//
// A History takes the scheduler's answers to control.OpTelemetry, a few a minute or one a second,
// and makes rates of their counters; a Snapshot is what it knows at one time. A screen makes text
// of a Snapshot for a terminal of a size. A model is the bubbletea program around both: keys, the
// size and answers come in as messages, text comes out; Run connects it to a terminal. What asks
// the scheduler is a Source.
//
// Names, reasons and hosts come from other processes: clean takes control characters out of them
// before they reach a terminal.
package top
