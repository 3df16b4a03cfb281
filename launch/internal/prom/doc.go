// Package prom shows the metrics of a whole job to Prometheus, at one address of the scheduler:
//
//	/metrics  what all processes of the job measure, in the text format
//	/sd       the address of /metrics, for Prometheus' http_sd_configs
//
// A scrape asks the scheduler once (control.Telemetry) and makes its answer from that alone.
// Nothing is kept between scrapes and nothing is looked up in a step: what processes measure comes
// to the scheduler with their heartbeats.
//
// Names follow from telemetry.Info: paragon_worker_NAME and paragon_server_NAME, with _total behind
// those of counters; what buckets count is a histogram. Of the job as a whole there is
// paragon_job_NAME. The labels of a process are rank, host and node, the number of the process
// within the job: the counters of two processes that have had the same rank stay apart. No label
// has the name of a key.
package prom
