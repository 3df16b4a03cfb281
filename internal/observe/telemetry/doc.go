// Package telemetry holds the metrics of a job's processes: the one list of metrics, how their
// values are recorded without a lock or an allocation, how they travel, and how the scheduler keeps
// them. launch ctl, launch top, the live page and Prometheus all read them from here.
//
//	worker, server, store --Recorder--> Record in each heartbeat --> History of the scheduler --> control.Telemetry, control.Series
//
// A Recorder belongs to one process. Its counters start with the process and never go back, so a
// lost heartbeat loses no count, and a scheduler that is started again has the right totals with
// the next one. Rates are made where they are shown, as differences of counters.
//
// A History is pure: times come with what is added. It is not in the scheduler's journal: after a
// restart the time before is a gap.
//
// A Clock estimates how far a process's clock is from the scheduler's, with a bound of the error,
// from the stamps of heartbeats.
package telemetry
