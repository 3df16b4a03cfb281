package top

import "github.com/paragon-train/paragon/internal/member/control"

// A Snapshot is what a job's processes did within the last seconds. Numbers that are not known are
// NaN, null in JSON.
type Snapshot struct {
	Job Job `json:"job"`

	// Workers are by rank, those without one last.
	Workers []Worker `json:"workers"`

	// Servers are by rank.
	Servers []Server `json:"servers"`
}

// Present is how many workers and servers there are, without those that have ended.
func (s *Snapshot) Present() (workers, servers int) {
	for _, w := range s.Workers {
		if w.State != control.NodeGone {
			workers++
		}
	}
	for _, x := range s.Servers {
		if x.State != control.NodeGone {
			servers++
		}
	}
	return workers, servers
}

// A Job is the whole of its workers.
type Job struct {
	// Steps are those of one worker, the mean of all.
	Steps control.Number `json:"steps_per_second"`

	// Examples are those of all workers.
	Examples control.Number `json:"examples_per_second"`

	Step  control.Number `json:"step"` // the newest one
	Epoch control.Number `json:"epoch"`

	// Loss is the mean of the workers' newest ones.
	Loss control.Number `json:"loss"`

	LearningRate control.Number `json:"learning_rate"`
}

// A Process is what workers and servers have in common.
type Process struct {
	Node uint64 `json:"node"`

	// Rank is -1 if there is none yet.
	Rank int32 `json:"rank"`

	Host  string `json:"host"`
	PID   uint32 `json:"pid"`
	State string `json:"state"`

	// AgeMillis is that of the newest values; -1: none came.
	AgeMillis int64 `json:"age_ms"`

	// Seconds is the time within which the rates were measured; NaN: there are none yet.
	Seconds  control.Number `json:"seconds"`
	Sent     control.Number `json:"sent_bytes_per_second"`
	Received control.Number `json:"received_bytes_per_second"`

	// CPU is how many cores it keeps busy, on average.
	CPU control.Number `json:"cpu_cores"`
}

// A Worker is one worker of a Snapshot.
type Worker struct {
	Process
	Step     control.Number `json:"step"`
	Epoch    control.Number `json:"epoch"`
	Loss     control.Number `json:"loss"`
	Steps    control.Number `json:"steps_per_second"`
	Examples control.Number `json:"examples_per_second"`
	// Times of one step, the mean. StepTime is more than its parts by checkpoints and by what
	// nobody measures.
	StepTime control.Number `json:"step_seconds"`
	Compute  control.Number `json:"compute_seconds"`
	Wait     control.Number `json:"wait_seconds"`
	Data     control.Number `json:"data_seconds"`
	// Last is the share of the rounds of the last half minute to which this worker contributed
	// last, Gap how long after the last but one, the mean.
	Last control.Number `json:"last_share"`
	Gap  control.Number `json:"last_gap_seconds"`

	// Slow says that the others wait for it, as the scheduler finds.
	Slow bool `json:"slow"`

	// stepTimes and throughput are the past, one value for each record, the newest last.
	stepTimes, throughput []float64
}

// A Server is one server of a Snapshot.
type Server struct {
	Process

	// Rounds are those of all its shards.
	Rounds control.Number `json:"rounds_per_second"`

	// RoundTime is from the first contribution to the close, on average.
	RoundTime control.Number `json:"round_seconds"`

	Waiting control.Number `json:"waiting_requests"`
	Held    control.Number `json:"held_bytes"`
	Values  control.Number `json:"value_bytes"`
}
