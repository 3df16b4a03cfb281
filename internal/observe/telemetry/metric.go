package telemetry

import (
	"fmt"
)

// A Metric is something that a process measures of itself. The numbers are part of the format: they
// are only ever appended.
type Metric uint8

// The metrics. Times are in seconds, sizes in bytes, shares from 0 to 1, points in time in Unix
// seconds.
const (
	// Workers measure what follows. A step is one of the training loop: worker.Fit reports it, or a
	// program of its own through kvstore.Reporter.

	// Steps counts the steps that are done, those before a resume not included.
	Steps Metric = 1

	Examples Metric = 2 // counter

	// StepSeconds counts the time of all steps, from the begin of one to that of the next.
	StepSeconds Metric = 3

	// StepBuckets counts the steps that took at most StepBounds[i]. Those above all bounds are in
	// Steps alone.
	StepBuckets Metric = 4

	// ComputeSeconds counts the part of StepSeconds that is forward and backward.
	ComputeSeconds Metric = 5

	WaitSeconds Metric = 6 // counter: waiting for the store
	DataSeconds Metric = 7 // counter: waiting for the next batch
	SaveSeconds Metric = 8 // counter: writing checkpoints
	Epoch       Metric = 9

	// Loss is this worker's of the newest step.
	Loss Metric = 10

	// LearningRate is that of the newest step.
	LearningRate Metric = 11

	// GradientNorm is ‖mean gradient‖ of the newest measured step.
	GradientNorm Metric = 12

	// GlobalBatch is the number of examples of the newest step on all workers.
	GlobalBatch Metric = 13

	// LastStepTime is when the newest step ended.
	LastStepTime Metric = 14

	// StalenessMean is for dist_async: the updates of others that a gradient missed, the mean since
	// the begin.
	StalenessMean Metric = 15

	StalenessMax Metric = 16
	TestLoss     Metric = 17
	TestAccuracy Metric = 18

	// CheckpointTime is when the newest checkpoint was complete.
	CheckpointTime Metric = 19

	// SaveDuration is that of the newest checkpoint.
	SaveDuration Metric = 20

	// Checkpoints counts those that were completed by this worker, which is rank 0.
	Checkpoints Metric = 21

	// CheckpointFolder is 1 if this worker has a place for checkpoints, and 0 if it has none.
	CheckpointFolder Metric = 22

	// CheckpointFailures counts the checkpoints that this worker could not write.
	CheckpointFailures Metric = 23

	// TestScore is by name: Recorder.SetScores sets them, and History.Scores has the names.
	TestScore Metric = 24

	// Servers measure what follows.

	// Rounds counts the rounds that were closed, of all shards.
	Rounds Metric = 40

	// RoundSeconds counts the time of all rounds, from the first contribution to the close.
	RoundSeconds Metric = 41

	// RoundBuckets counts the rounds that took at most StepBounds[i].
	RoundBuckets Metric = 42

	// ApplySeconds counts the part of RoundSeconds that adds up and runs the optimizer.
	ApplySeconds Metric = 43

	// Waiting is the number of requests that wait.
	Waiting Metric = 44

	// HeldBytes is the size of the contributions that are held for open rounds.
	HeldBytes Metric = 45

	// ValueBytes is the size of the parameters, with those of backups.
	ValueBytes Metric = 46

	// Shards are those that workers use here, so that the servers' sum is the job's number of
	// shards.
	Shards Metric = 47

	// Every process measures what follows.

	SentBytes     Metric = 60 // counter, by transport
	ReceivedBytes Metric = 61 // counter, by transport
	ResidentBytes Metric = 62
	CPUSeconds    Metric = 63 // counter
	ClockOffset   Metric = 64 // the scheduler's clock minus this process's
	ClockBound    Metric = 65 // how wrong ClockOffset may be
	HeartbeatTrip Metric = 66 // round trip of the newest heartbeat

	// MetricsPort is the port of the process's own endpoint for Prometheus.
	MetricsPort Metric = 67

	GPUMemoryUsed  Metric = 80 // by GPU
	GPUMemoryTotal Metric = 81 // by GPU
	GPULoad        Metric = 82 // by GPU; a share
	GPUTemperature Metric = 83 // by GPU; °C
	GPUPower       Metric = 84 // by GPU; W

	numMetrics = 85
)

// The transports of SentBytes and ReceivedBytes, by index.
const (
	TCP = iota
	TLS
	SharedMemory
	UnixSocket

	transports
)

// Transports are the names of the transports, by index.
var Transports = [transports]string{TCP: "tcp", TLS: "tls", SharedMemory: "memory", UnixSocket: "unix"}

// MaxGPUs bounds the GPUs of one process that are told of.
const MaxGPUs = 8

// StepBounds are the upper bounds of StepBuckets and RoundBuckets, in seconds.
var StepBounds = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}

// A Kind says how a metric's values are to be read.
type Kind uint8

// The kinds.
const (
	Gauge   Kind = iota // the newest value
	Counter             // a sum since the process began
)

// The roles whose processes have a metric.
const (
	OfWorker = 1 << iota
	OfServer
	OfAll = OfWorker | OfServer
)

// An Info says what a metric is.
type Info struct {
	// Name is what people and programs read, such as "compute_seconds", without role, and without
	// the _total of Prometheus.
	Name string

	Help  string // one sentence
	Kind  Kind
	Roles int

	// Label says what the index tells, such as "transport"; empty: there is one value.
	Label string

	// Width is how many indices there are. It is 1 without a label.
	Width int

	// Kept says that History keeps its past, and not only its newest value.
	Kept bool
}

var infos = [numMetrics]Info{
	Steps:          {Name: "steps", Help: "Training steps done by this process.", Kind: Counter, Roles: OfWorker, Kept: true},
	Examples:       {Name: "examples", Help: "Examples trained on by this process.", Kind: Counter, Roles: OfWorker, Kept: true},
	StepSeconds:    {Name: "step_seconds", Help: "Time of all steps.", Kind: Counter, Roles: OfWorker, Kept: true},
	StepBuckets:    {Name: "step_buckets", Help: "Steps by duration.", Kind: Counter, Roles: OfWorker, Label: "bucket", Width: len(StepBounds)},
	ComputeSeconds: {Name: "compute_seconds", Help: "Time in forward and backward passes.", Kind: Counter, Roles: OfWorker, Kept: true},
	WaitSeconds:    {Name: "wait_seconds", Help: "Time waiting for the store.", Kind: Counter, Roles: OfWorker, Kept: true},
	DataSeconds:    {Name: "data_seconds", Help: "Time waiting for the next batch.", Kind: Counter, Roles: OfWorker, Kept: true},
	SaveSeconds:    {Name: "save_seconds", Help: "Time writing checkpoints.", Kind: Counter, Roles: OfWorker},
	Epoch:          {Name: "epoch", Help: "Epoch of the newest step.", Roles: OfWorker},
	Loss:           {Name: "loss", Help: "Loss of the newest step on this worker.", Roles: OfWorker, Kept: true},
	LearningRate:   {Name: "learning_rate", Help: "Learning rate of the newest step.", Roles: OfWorker, Kept: true},
	GradientNorm:   {Name: "gradient_norm", Help: "Norm of the mean gradient of the newest measured step.", Roles: OfWorker, Kept: true},
	GlobalBatch:    {Name: "global_batch", Help: "Examples of the newest step on all workers.", Roles: OfWorker},
	LastStepTime:   {Name: "last_step_timestamp_seconds", Help: "When the newest step ended, in Unix time.", Roles: OfWorker},
	StalenessMean:  {Name: "staleness_mean", Help: "Updates of other workers that a gradient missed, on average.", Roles: OfWorker},
	StalenessMax:   {Name: "staleness_max", Help: "Updates of other workers that a gradient missed, at most.", Roles: OfWorker},
	TestLoss:       {Name: "test_loss", Help: "Loss of the newest evaluation.", Roles: OfWorker, Kept: true},
	TestAccuracy:   {Name: "test_accuracy", Help: "Accuracy of the newest evaluation, 0 to 1.", Roles: OfWorker, Kept: true},
	CheckpointTime: {Name: "checkpoint_timestamp_seconds", Help: "When the newest checkpoint was complete, in Unix time.", Roles: OfWorker},
	SaveDuration:   {Name: "checkpoint_seconds", Help: "Time that the newest checkpoint took.", Roles: OfWorker},
	Checkpoints:    {Name: "checkpoints", Help: "Checkpoints completed.", Kind: Counter, Roles: OfWorker},

	CheckpointFolder:   {Name: "checkpoint_folder", Help: "1: the worker has a folder for checkpoints; 0: it has none.", Roles: OfWorker},
	CheckpointFailures: {Name: "checkpoint_failures", Help: "Checkpoints that this worker could not write.", Kind: Counter, Roles: OfWorker},
	TestScore:          {Name: "test_score", Help: "Metric of one's own in the newest evaluation.", Roles: OfWorker, Label: "name", Width: MaxScores, Kept: true},

	Rounds:       {Name: "rounds", Help: "Rounds closed, of all shards.", Kind: Counter, Roles: OfServer, Kept: true},
	RoundSeconds: {Name: "round_seconds", Help: "Time of all rounds, from the first contribution to the close.", Kind: Counter, Roles: OfServer, Kept: true},
	RoundBuckets: {Name: "round_buckets", Help: "Rounds by duration.", Kind: Counter, Roles: OfServer, Label: "bucket", Width: len(StepBounds)},
	ApplySeconds: {Name: "apply_seconds", Help: "Time spent on summing contributions and in the optimizer.", Kind: Counter, Roles: OfServer, Kept: true},
	Waiting:      {Name: "waiting_requests", Help: "Requests that wait for a round.", Roles: OfServer, Kept: true},
	HeldBytes:    {Name: "held_bytes", Help: "Contributions held for open rounds.", Roles: OfServer, Kept: true},
	ValueBytes:   {Name: "value_bytes", Help: "Parameters held, including backups.", Roles: OfServer},
	Shards:       {Name: "shards", Help: "Primary shards on this server, without backups.", Roles: OfServer},

	SentBytes:      {Name: "sent_bytes", Help: "Bytes sent to other nodes.", Kind: Counter, Roles: OfAll, Label: "transport", Width: transports, Kept: true},
	ReceivedBytes:  {Name: "received_bytes", Help: "Bytes received from other nodes.", Kind: Counter, Roles: OfAll, Label: "transport", Width: transports, Kept: true},
	ResidentBytes:  {Name: "resident_bytes", Help: "Resident memory of the process.", Roles: OfAll, Kept: true},
	CPUSeconds:     {Name: "cpu_seconds", Help: "CPU time of the process.", Kind: Counter, Roles: OfAll, Kept: true},
	ClockOffset:    {Name: "clock_offset_seconds", Help: "The scheduler's clock minus this process's.", Roles: OfAll},
	ClockBound:     {Name: "clock_bound_seconds", Help: "Maximum error of the clock offset.", Roles: OfAll},
	HeartbeatTrip:  {Name: "heartbeat_seconds", Help: "Round trip of the newest heartbeat.", Roles: OfAll},
	MetricsPort:    {Name: "metrics_port", Help: "TCP port of the process's own endpoint for Prometheus (launch --process-metrics).", Roles: OfAll},
	GPUMemoryUsed:  {Name: "gpu_memory_used_bytes", Help: "GPU memory used.", Roles: OfWorker, Label: "gpu", Width: MaxGPUs, Kept: true},
	GPUMemoryTotal: {Name: "gpu_memory_total_bytes", Help: "GPU memory.", Roles: OfWorker, Label: "gpu", Width: MaxGPUs},
	GPULoad:        {Name: "gpu_load_ratio", Help: "Share of the last second in which the GPU worked.", Roles: OfWorker, Label: "gpu", Width: MaxGPUs, Kept: true},
	GPUTemperature: {Name: "gpu_temperature_celsius", Help: "Temperature of the GPU.", Roles: OfWorker, Label: "gpu", Width: MaxGPUs},
	GPUPower:       {Name: "gpu_power_watts", Help: "Power drawn by the GPU.", Roles: OfWorker, Label: "gpu", Width: MaxGPUs},
}

// Info says what the metric is; ok is false for numbers that no metric has.
func (m Metric) Info() (i Info, ok bool) {
	if int(m) >= numMetrics || infos[m].Name == "" {
		return Info{}, false
	}
	i = infos[m]
	i.Width = max(i.Width, 1)
	return i, true
}

// ByName finds the metric of a name.
func ByName(name string) (Metric, bool) {
	for m := range Metric(numMetrics) {
		if infos[m].Name == name && name != "" {
			return m, true
		}
	}
	return 0, false
}

// Metrics are all, in the order of their numbers.
func Metrics() (all []Metric) {
	for m := range Metric(numMetrics) {
		if infos[m].Name != "" {
			all = append(all, m)
		}
	}
	return all
}

// String is the metric's name.
func (m Metric) String() string {
	if i, ok := m.Info(); ok {
		return i.Name
	}
	return fmt.Sprintf("metric %d", uint8(m))
}

// first[m] is the slot of metric m's index 0.
var first = func() (at [numMetrics + 1]int) {
	for m := range numMetrics {
		at[m+1] = at[m]
		if i, ok := Metric(m).Info(); ok {
			at[m+1] += i.Width
		}
	}
	return at
}()

// numSlots is first[numMetrics], which a test holds.
const numSlots = 119

// Limits of the Scores of a Record. A History knows so many names in all.
const (
	MaxScores    = 12
	MaxScoreName = 32 // bytes
)
