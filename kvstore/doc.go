// Package kvstore holds the parameters of one training job as keys and values spread over servers,
// and gives a worker two verbs: push and pull.
//
// A key names one parameter tensor. Its value is cut into shards, and each shard lives on one
// server. Push adds a worker's gradient to the key's open round. When every worker of the current
// generation has contributed, the contributions are summed in rank order, the optimizer is applied
// once, and the round closes. Pull returns the value together with this worker's last push.
// PushPull does both in one trip, PushPullMany does so for several keys, of which small ones share
// messages.
//
//	kv, err := kvstore.Create(ctx, "dist_sync")
//	err = kv.Init(ctx, "weight", weight)                       // every worker; rank 0's value counts
//	err = kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 0.1})
//	err = kv.PushPull(ctx, "weight", [][]float32{gradient}, [][]float32{weight})
//
// # Rules
//
// Every worker uses the same keys with the same sizes; another size is ErrSize and names the key.
// Calls for different keys may be made together; two calls for one key may not, except that several
// Pulls of it may. A worker may push one round ahead of a key's open round; a further push waits.
// Without an optimizer a closed round's sum replaces the value. The store sums; with optim.Config's
// Reduction "mean" the servers divide by the sum of the weights that counted (Weighted).
//
// # Waiting
//
// A call waits until its context ends, the store's timeout (WithTimeout) is over, or the job has
// ended; every few seconds the log says whom it waits for. Meanwhile broken connections are
// restored and requests repeated; a repeated request counts once. A push that returns an error may
// have reached some shards. Pushing again repeats the same contribution: only the shards that the
// first push has not reached use the new gradient. Errors answer errors.Is with those below and
// errors.As with a *ShardError, which says where.
//
// # Rows
//
// A key of rows is a table; a worker pulls and pushes only the rows that its batch uses. Each row
// is sent once, however often it is named; duplicates in a push add up, and the optimizer changes
// no other row (lazy updates: see optim.Pass.UpdateRows). Rows are spread over all servers, so that
// neither the most frequent rows nor rows at regular distances end up on one server.
//
//	err = kv.InitTable(ctx, "words", kvstore.Table{RowLen: 16, MaxRows: 50e6, // Rows: 0 opens the vocabulary
//		Initializer: kvstore.Initializer{Name: "normal", Deviation: 0.01, Seed: 1}})
//	err = kv.PullRows(ctx, "words", ids, rows)      // ids: any int64, such as hashes; rows: len(ids) × 16
//	err = kv.PushRows(ctx, "words", ids, gradients)
//
// A row of an open vocabulary is made by the first push to it, with first values that depend on
// seed, key and ID alone; a pull before that returns the same values. Usage says what servers hold;
// a push beyond MaxRows or a server's memory is ErrFull.
//
// # Kinds of stores
//
// "local" and "device" live in this process, for one worker and its devices; they have the
// semantics of "dist_sync". "dist_sync" and "dist_async" join the job that launch describes in the
// environment; without one they are a job of one worker, and log that. All pass the same test
// suite, kvstoretest.
//
// In "dist_async" each push is applied at once. WithStaleness bounds how far a worker may run ahead
// of the slowest. Staleness says how old the values were.
//
// WithLocalSteps is for slow links: workers exchange values once in several steps, in place of
// gradients in every step. worker.Trainer does so.
//
// WithHostSums, and PARAGON_HOST_SUMS (auto, on or off), say whether the workers of a host add up
// their push-pulls through shared memory. Then one gradient and one value for each host cross a
// link. By default they do for keys whose servers are on other hosts. A round is then summed by
// host, and by rank within a host.
//
// # Steps
//
// A training loop whose batch size changes tells the servers what holds for a whole step. Step
// returns a Pusher for this round alone, with a factor of the learning rate, the gain by which
// Adam's family keeps its second moment, the progress at which the schedule is read, and a request
// to measure the norms of the gradients. Norms then returns their mean square and the square of
// their mean, from which package adapt estimates the gradient noise scale.
//
//	by := kv.Step(kvstore.PushOptions{Weight: examples, Counted: true, Measure: true, Factor: factor, Gain: gain, ByProgress: true, Progress: progress})
//	err = by.PushPull(ctx, "weight", grads, outs)
//	n, ok := kv.Norms("weight")
//
// # Profiles
//
// SetProfilerConfig and SetProfilerState record what this worker, the servers, or both do from one
// call to another (Profiler).
//
// # Workers that come and go
//
// Workers may join, leave and be lost while the job runs: an ElasticSampler hands out the examples,
// each exactly once an epoch. WithGuard keeps out gradients that are not finite or far too large.
package kvstore

import (
	"context"
	"errors"

	"github.com/paragon-train/paragon/optim"
)

// A Store gives one worker access to the job's parameters. It is the sum of smaller interfaces, so
// that code can ask for only the part that it needs. The package comment says what may be called
// together.
type Store interface {
	// The Store's own pushes have weight 1.
	Pusher
	Dense
	Rows
	Control
	Checkpoints
	Elastic
	Stopper
	Reporter
	Profiler

	// Type is the name given to Create, "dist" as "dist_sync".
	Type() string
	Rank() int
	// NumWorkers is the number of workers as of the newest generation: a worker that has since
	// left or been lost is still counted. Members returns those that are alive.
	NumWorkers() int
	// InitialWorkers is the number of workers that the job was started with. It is the same on
	// a worker that joins later, so schedules may depend on it.
	InitialWorkers() int
	// Weighted returns a Pusher of this store whose contributions have a weight in a mean, such
	// as their number of examples. With counted the weight is the number of examples that this
	// worker has used (else see PushOptions.Examples), and the servers add them up. If the
	// worker is lost, its examples are handed out again, except those of acknowledged steps:
	// steps of which every key has the contribution. Keys whose names begin with "paragon/" are
	// not part of the model and do not matter for that.
	Weighted(weight float32, counted bool) Pusher
	// Step returns a Pusher for one step: Weighted, with a learning rate and a measurement of
	// norms for this step alone. Make a new one for each step. A round to which workers gave
	// different factors or progress is an error that names both.
	Step(PushOptions) Pusher
	// Norms returns what the servers measured of the newest round of a dense key that this
	// worker has pulled; false if that round was not measured. All workers get the same bits.
	// See PushOptions.Measure.
	Norms(key string) (Norms, bool)
	// MeasuresNorms reports whether PushOptions.Measure may be asked for, of dense keys: not in
	// an asynchronous store, and not with a compression that keeps a residual.
	MeasuresNorms() bool
	// RoundWeight returns the sum of the weights of the contributions in the newest round of a
	// dense key that this worker has pulled, without those that the guard (WithGuard) has
	// refused. 0: that round had no effect. All workers get the same number. Of a key with
	// several shards it is the largest.
	RoundWeight(key string) float64
	// RoundExamples is RoundWeight for the examples of the contributions
	// (PushOptions.Examples).
	RoundExamples(key string) uint64
	// Topology says on how many hosts the workers run, and how many servers there are.
	Topology() Topology
	// LocalSteps is what WithLocalSteps was given; 0: workers exchange gradients at every step.
	LocalSteps() int
	// Generation is the version of the membership; 1 in a store within the process.
	Generation() uint64
	// JobRun says which training the job belongs to.
	JobRun() Run

	// Close leaves the job: this worker is done, and the others go on without it. The servers
	// end when all workers have left. With backups it waits, for up to 5 s, until these have
	// this worker's last pushes.
	Close() error
	// Abort leaves the job because of cause, and fails the job: the other workers' calls return
	// who failed and why. A Close or Abort after the first does nothing. See Leave.
	Abort(cause error) error
}

// A Pusher contributes this worker's gradients to rounds, each with the same weight.
type Pusher interface {
	// Push adds this worker's gradient, one slice for each local device (they are summed), to
	// the key's open round.
	Push(ctx context.Context, key string, grads ...[]float32) error
	// PushPull is one trip: it returns when the round closed and outs hold the new value. grads
	// and outs may be the same.
	PushPull(ctx context.Context, key string, grads, outs [][]float32) error
	// PushPullMany is PushPull of several keys at the same time: it returns when the rounds of
	// all have closed. No key may be named twice. All arguments are checked before anything is
	// sent. After that each key fails or counts by itself, and none waits for another. The
	// error is KeyErrors, which names each key that failed: call again with those. Keys of up
	// to 4096 values share a message for each server, so that a call with many small ones takes
	// a fraction of the time that as many calls take.
	PushPullMany(ctx context.Context, entries []Entry) error
	// PushMany is Push of several keys at the same time, as PushPullMany is PushPull: it
	// returns when all contributions are held. No Entry has Outs.
	PushMany(ctx context.Context, entries []Entry) error
	// PushRows adds rows to the open round: row i of grad (len(rows) × rowLen) belongs to
	// rows[i]. Rows need not be sorted or unique; duplicates add up. An empty list of rows is a
	// contribution, too; a round needs one from every worker.
	PushRows(ctx context.Context, key string, rows []int64, grad []float32) error
}

// Dense are the calls about keys whose values are pushed and pulled whole.
type Dense interface {
	// Init gives a key its first value. Every worker calls it, in any order of keys; rank 0's
	// value counts; it returns when the value can be pulled. A second Init of a key by the same
	// worker is ErrDuplicateInit, except the first one after a Load that brought the key: the
	// loaded value stays.
	Init(ctx context.Context, key string, value []float32) error
	// InitAverage is Init for a key that no optimizer touches: a closed round's sum over the
	// sum of weights (Weighted) replaces the value. For batch norm's running statistics and for
	// mean gradients that workers apply themselves.
	InitAverage(ctx context.Context, key string, value []float32) error
	// SetShape sets the shape (row-major) that a dense key's tensor has in files of Save, in
	// place of [size]. It is called after Init, by the worker that saves. A shape other than
	// the one set before, or loaded from a file, is ErrSize.
	SetShape(key string, shape ...int) error
	// Pull copies the value, including this worker's last push, into every out.
	Pull(ctx context.Context, key string, outs ...[]float32) error
	// Staleness says how old the value was that this worker pulled last of a dense key. It is
	// zero for a key of rows, and for one never pulled.
	Staleness(key string) Staleness
}

// Rows are the calls about keys of rows, such as embeddings.
type Rows interface {
	// InitRows is Init for a key of rows: numRows × rowLen values, row-major; nil value: zeros.
	InitRows(ctx context.Context, key string, numRows, rowLen int, value []float32) error
	// InitTable is InitRows for a table that the servers make: rows by number with first values
	// drawn from a seed, or an open vocabulary, whose rows are named by any int64 and made on
	// first use. Every worker gives the same Table; another one is ErrConflict.
	InitTable(ctx context.Context, key string, t Table) error
	// PullRows copies rows[i] of the value into row i of out (len(rows) × rowLen).
	PullRows(ctx context.Context, key string, rows []int64, out []float32) error
}

// Control are the calls about the job as a whole.
type Control interface {
	// SetOptimizer makes the servers apply cfg to each closed round; without it a closed
	// round's sum replaces the value. Every worker calls it with the same cfg (another one is
	// ErrConflict); it counts once and keeps existing state if unchanged.
	SetOptimizer(ctx context.Context, cfg optim.Config) error
	// SetLearningRate replaces the learning rate (and its schedule) from the round given on, on
	// all servers; one worker's call is enough. A round that a key has already closed is
	// ErrConflict.
	SetLearningRate(ctx context.Context, round uint64, rate float64) error
	// ClipGlobalNorm clips the gradients of one step by their norm over all keys of the step
	// (optim.Config.ClipGlobalNorm), and returns that norm, before the clipping: of the round's
	// gradients as the optimizer gets them, summed over all workers and scaled. NaN: it is not
	// finite, and the step changes nothing, on all keys.
	//
	// Every worker calls it once in each step, with the keys that it pushes in the step, while
	// or after it pushes them, and before it pushes the next step's. The servers hold the
	// rounds of all keys until then: pulls and push-pulls wait for it. So a program either
	// pushes all keys (Push, PushRows), calls ClipGlobalNorm and pulls, or calls it on a
	// goroutine of its own while its push-pulls are under way; worker.Trainer does that. It waits
	// for the step's pushes of all workers. The norm has the same bits on every worker, and with
	// any number of servers. A key that another worker did not name is ErrConflict, if the
	// factors differ. After an error it may be called again. Averaged keys take no part.
	ClipGlobalNorm(ctx context.Context, keys ...string) (norm float64, err error)
	// SetCompression compresses this worker's pushes of dense keys from now on, except those of
	// InitAverage, which are never compressed. Every worker should set the same. The store
	// "local" sends nothing and refuses it; in "device" each local device's gradient is
	// compressed by itself, elsewhere their sum.
	SetCompression(ctx context.Context, c Compression) error
	// Barrier returns when every worker has called it.
	Barrier(ctx context.Context) error
	// Broadcast returns on every worker the value that the worker of the lowest rank makes. The
	// other workers' make is not called, unless that one is lost before it has sent the value.
	// Every worker calls it; calls are matched in order, as those of Barrier. A value has at
	// most MaxBroadcast bytes of UTF-8. An error of make is returned on its worker alone; the
	// others wait for it.
	Broadcast(ctx context.Context, make func() (string, error)) (string, error)
	// Usage returns what each server holds, by rank. It does not include payloads in transit
	// and buffers kept for reuse.
	Usage(ctx context.Context) ([]Usage, error)
	// Caught returns how many of this worker's contributions to shards of the key the guard
	// (WithGuard) had refused or clipped by the time of this worker's last pull.
	Caught(key string) uint64
}

// Checkpoints are the calls that write and read the job's state.
type Checkpoints interface {
	// Save writes all parameters and optimizer state of one consistent round into one
	// safetensors file on this worker's host, or into a bucket: uri is a path, file:///path, or
	// a URL that checkpoint.OpenPlace knows. One worker's call is enough; it must not push
	// meanwhile. The keys are those that this worker has initialised. In an asynchronous store
	// the file may hold a push that another worker makes meanwhile in some shards and not in
	// others, unless all workers wait at a Barrier.
	Save(ctx context.Context, uri string) error
	// Snapshot starts to read what Save would write now into this worker's memory, and returns
	// at once. This worker's next push to a key waits until that key has been read; no round of
	// a synchronous store closes without that push, so the Snapshot is consistent. Nothing else
	// waits, and no other worker need take part. The reading ends with ctx. As with Save, in an
	// asynchronous store a shard may be read between two pushes.
	Snapshot(ctx context.Context) (*Snapshot, error)
	// Load restores what Save wrote, also with another number of servers or workers. Every
	// worker calls it; rank 0 reads the file, the others wait until it is done. The file must
	// hold every key that is initialised; it may hold more, and keys may be initialised after
	// it. Load restores the optimizer's state and the rates of SetLearningRate, not the
	// optimizer: call SetOptimizer before or after, with the same config. All of the file is
	// checked against its checksums before anything changes; a file without them, from an older
	// version, is loaded with a warning. A damaged file is checkpoint.ErrDamaged.
	Load(ctx context.Context, uri string) error
	// Residuals returns a copy of what this worker's compressed pushes have left out, for a
	// checkpoint of this worker.
	Residuals(ctx context.Context) (Residuals, error)
	// SetResiduals restores them in a run that resumes, after SetCompression and after Load,
	// which sets residuals to zero. Residuals of another compression are ErrConflict, and
	// values that are not finite ErrNotFinite. Neither method may be called while this worker
	// pushes.
	SetResiduals(ctx context.Context, r Residuals) error
}

// A Leaver can end its part in a job. A Store is one.
type Leaver interface {
	Close() error
	Abort(cause error) error
}

// Leave ends a worker's part in the job: with Close if err is nil or ErrRemoved, so that the others
// go on, else with Abort. It returns err, joined with the error of Close or Abort. If err has
// ErrFinal in its chain, launch hears of it as by Final:
//
//	defer func() { err = kvstore.Leave(kv, err) }()
func Leave(s Leaver, err error) error {
	switch {
	case err == nil:
		return s.Close()
	case errors.Is(err, ErrRemoved):
		return errors.Join(err, s.Close())
	}
	if errors.Is(err, ErrFinal) {
		err = Final(err)
	}
	return errors.Join(err, s.Abort(err))
}

// RunOf is the run of the store's job.
func RunOf(s Store) Run { return s.JobRun() }
