// Package otel sends what happens to a job as a whole to a collector of OpenTelemetry, as one
// trace: the job, its attempts and restarts, how each process joined, changes of the membership,
// and checkpoints. Steps and rounds are not in it: launch ctl trace records those.
//
// The launcher knows of processes by itself; the rest it asks of the scheduler, as the live page
// does. A collector that is slow, or cannot be reached, costs the job nothing: spans wait in a
// bounded queue, and what does not fit is dropped.
package otel
