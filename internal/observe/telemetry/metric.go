package telemetry

import "fmt"

// A Metric is something that a process measures of itself. The numbers are part of the format: they
// are only ever appended.
type Metric uint8

// The metrics. Times are in seconds, sizes in bytes, shares from 0 to 1, points in time in Unix
// seconds.
const (
	// Of a worker. A step is one of the training loop: worker.Fit reports it, or a program of
	// its own through kvstore.Reporter.
	Steps          Metric = 1 // counter: steps that are done, those before a resume not included
	Examples       Metric = 2 // counter
	StepSeconds    Metric = 3 // counter: time of all steps, from one's begin to the next one's
	StepBuckets    Metric = 4 // counter, by bucket: steps that took at most StepBounds[i]; those above all bounds are in Steps alone
	ComputeSeconds Metric = 5 // counter: of StepSeconds, in forward and backward
	WaitSeconds    Metric = 6 // counter: waiting for the store
	DataSeconds    Metric = 7 // counter: waiting for the next batch
	SaveSeconds    Metric = 8 // counter: writing checkpoints
	Epoch          Metric = 9
	Loss           Metric = 10 // of the newest step, this worker's
	LearningRate   Metric = 11 // of the newest step
	GradientNorm   Metric = 12 // ‖mean gradient‖ of the newest measured step
	GlobalBatch    Metric = 13 // examples of the newest step on all workers
	LastStepTime   Metric = 14 // when the newest step ended
	StalenessMean  Metric = 15 // dist_async: updates of others that a gradient missed, mean since the begin
	StalenessMax   Metric = 16
	TestLoss       Metric = 17
	TestAccuracy   Metric = 18
	CheckpointTime Metric = 19 // when the newest checkpoint was complete
	SaveDuration   Metric = 20 // of the newest checkpoint
	Checkpoints    Metric = 21 // counter: checkpoints that were completed by this worker, which is rank 0

	CheckpointFolder   Metric = 22 // 1: this worker has a place for checkpoints; 0: it has none
	CheckpointFailures Metric = 23 // counter: checkpoints that this worker could not write
	TestScore          Metric = 24 // by name: Recorder.SetScores sets them, and History.Scores has the names

	// Of a server.
	Rounds       Metric = 40 // counter: rounds closed, of all shards
	RoundSeconds Metric = 41 // counter: of all rounds, from the first contribution to the close
	RoundBuckets Metric = 42 // counter, by bucket: rounds that took at most StepBounds[i]
	ApplySeconds Metric = 43 // counter: of RoundSeconds, adding up and the optimizer's update
	Waiting      Metric = 44 // requests that wait
	HeldBytes    Metric = 45 // contributions held for open rounds
	ValueBytes   Metric = 46 // parameters, those of backups too
	Shards       Metric = 47 // that workers use here, so that the servers' sum is the job's number of shards

	// Of every process.
	SentBytes      Metric = 60 // counter, by transport
	ReceivedBytes  Metric = 61 // counter, by transport
	ResidentBytes  Metric = 62
	CPUSeconds     Metric = 63 // counter
	ClockOffset    Metric = 64 // the scheduler's clock minus this process's
	ClockBound     Metric = 65 // how wrong ClockOffset may be
	HeartbeatTrip  Metric = 66 // round trip of the newest heartbeat
	MetricsPort    Metric = 67 // of the process's own endpoint for Prometheus
	GPUMemoryUsed  Metric = 80 // by GPU
	GPUMemoryTotal Metric = 81 // by GPU
	GPULoad        Metric = 82 // by GPU, share
	GPUTemperature Metric = 83 // by GPU, °C
	GPUPower       Metric = 84 // by GPU, W

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
	Name  string // in what people and programs read: "compute_seconds"; without role, and without the _total of Prometheus
	Help  string // one sentence
	Kind  Kind
	Roles int
	Label string // what the index tells, "transport"; empty: there is one value
	Width int    // how many indices there are; 1 without a label
	Kept  bool   // History keeps its past, not only its newest value
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
