package top

import "github.com/paragon-train/paragon/internal/member/control"

// A Snapshot is what a job's processes did within the last seconds. Numbers that are not known are
// NaN, null in JSON.
type Snapshot struct {
	Job     Job      `json:"job"`
	Workers []Worker `json:"workers"` // by rank, those without one last
	Servers []Server `json:"servers"` // by rank
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
	Steps        control.Number `json:"steps_per_second"`    // of one worker, the mean of all
	Examples     control.Number `json:"examples_per_second"` // of all workers
	Step         control.Number `json:"step"`                // the newest one
	Epoch        control.Number `json:"epoch"`
	Loss         control.Number `json:"loss"` // the mean of the workers' newest ones
	LearningRate control.Number `json:"learning_rate"`
}

// A Process is what workers and servers have in common.
type Process struct {
	Node      uint64 `json:"node"`
	Rank      int32  `json:"rank"` // -1: none yet
	Host      string `json:"host"`
	PID       uint32 `json:"pid"`
	State     string `json:"state"`
	AgeMillis int64  `json:"age_ms"` // of the newest values; -1: none came
	// Seconds is the time within which the rates were measured; NaN: there are none yet.
	Seconds  control.Number `json:"seconds"`
	Sent     control.Number `json:"sent_bytes_per_second"`
	Received control.Number `json:"received_bytes_per_second"`
	CPU      control.Number `json:"cpu_cores"` // that it keeps busy, the mean
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
	Slow bool           `json:"slow"` // the scheduler says that the others wait for it

	stepTimes, throughput []float64 // the past, one value a record, newest last
}

// A Server is one server of a Snapshot.
type Server struct {
	Process
	Rounds    control.Number `json:"rounds_per_second"` // of all its shards
	RoundTime control.Number `json:"round_seconds"`     // from the first contribution to the close, the mean
	Waiting   control.Number `json:"waiting_requests"`
	Held      control.Number `json:"held_bytes"`
	Values    control.Number `json:"value_bytes"`
}
