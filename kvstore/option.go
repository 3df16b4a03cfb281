package kvstore

import (
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// An Option changes what Create makes.
type Option func(*settings)

// settings is what Create was told, and what follows from it. Nothing changes it once the store is
// made, so all parts of a store read it without a lock.
type settings struct {
	timeout   time.Duration
	logger    *slog.Logger
	staleness uint64
	bounded   bool
	anyOrder  bool
	guard     *Guard
	// local is the number of steps in a round; 0: workers exchange gradients in each.
	local    int
	localSet bool
	// hostSums is empty where the environment decides.
	hostSums HostSums
	// node is the membership to use in place of the environment's.
	node member
	// job is the *cluster.Config of the job to join in place of the environment's, or nil. The
	// field does not name the type: Option does, through settings, and every program that only
	// imports kvstore would link what a Config names, TLS among it.
	job    any
	getenv func(string) string
	// pid is the number of the process that the job is told; 0: this one's.
	pid int
	// noteEvery is how often the log says whom a call waits for, and how long a server may hold
	// a request before it must answer with the name of whom it waits for.
	noteEvery time.Duration
	// native says that values are sent as they lie in memory.
	native bool
	// err is of the environment.
	err error

	// kind is the store's type, and async, eachDevice and lossless follow from it: each push is
	// a round; each local device's gradient is compressed by itself, before the sum;
	// compression is refused.
	kind                        string
	async, eachDevice, lossless bool
}

func newSettings(opts []Option) *settings {
	s := &settings{
		timeout:   DefaultTimeout,
		staleness: math.MaxUint64,
		noteEvery: 5 * time.Second,
		native:    buffer.LittleEndian,
	}
	for _, o := range opts {
		o(s)
	}
	if s.logger == nil {
		s.logger, s.err = joblog.Default(s.getenv)
	}
	if s.getenv == nil {
		s.getenv = os.Getenv
	}
	return s
}

// setKind sets the store's type.
func (set *settings) setKind(kind string) {
	set.kind, set.async, set.eachDevice, set.lossless = kind, kind == "dist_async", kind == "device", kind == "local"
}

// waitMillis is how long a server may hold a call before it says whom the call waits for: a little
// less than noteEvery, so that the first line about the wait has that.
func (set *settings) waitMillis() uint32 { return uint32(set.noteEvery.Milliseconds() * 9 / 10) }

// pullsApart reports whether a push-pull needs a pull of its own: the answer to a push does not
// wait for slow workers.
func (set *settings) pullsApart() bool { return set.async && set.bounded }

// DefaultTimeout is how long a call of a Store waits for others unless WithTimeout says otherwise.
const DefaultTimeout = 5 * time.Minute

// WithTimeout bounds how long a call waits for other nodes before it is ErrUnavailable and says
// whom it waited for. Zero means DefaultTimeout, a negative duration no bound but the call's
// context.
func WithTimeout(d time.Duration) Option {
	return func(s *settings) {
		s.timeout = d
		if d == 0 {
			s.timeout = DefaultTimeout
		}
	}
}

// WithLogger sends the store's log lines, such as whom a call waits for, to l. Without it they go
// to slog.Default, with the level that PARAGON_LOG says (debug, info, warn or error), if it is set;
// where PARAGON_LOG_FORMAT is json they go to the standard error as JSON, with job, role, rank,
// process, pid and host (launch --log-format json). The program's own use of package slog stays as
// it is.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) {
		if l != nil {
			s.logger = l
		}
	}
}

// WithNotesEvery says how often the log says whom a call waits for, and after how long it does so
// first. Without it, and for less than a millisecond, that is every 5 s.
func WithNotesEvery(d time.Duration) Option {
	return func(s *settings) {
		if d >= time.Millisecond {
			s.noteEvery = d
		}
	}
}

// WithStaleness bounds the staleness of "dist_async": a pull waits until the slowest worker is at
// most k pushes of the key behind this one. Without it there is no bound. A synchronous store
// refuses it.
func WithStaleness(k uint64) Option {
	return func(s *settings) { s.staleness, s.bounded = k, true }
}

// WithLocalSteps is for slow links: each worker takes h steps by itself and then pushes the
// difference of its parameters, which the servers average and apply with an outer optimizer (local
// SGD; DiLoCo, Douillard et al. 2023). The store does not change; it only passes h on, as
// LocalSteps, to a trainer that does this, such as worker.Trainer. h is at least 1 and the same on
// all workers; dist_async refuses it.
func WithLocalSteps(h int) Option {
	return func(s *settings) { s.local, s.localSet = h, true }
}

// WithSumsInAnyOrder lets the servers of a synchronous store add gradients as they come. By default
// they add them in rank order, so that a run repeats bit for bit, and hold back those that come
// early. With many workers that costs memory, and time between the last gradient and the new value;
// see docs/design/0008-store-speed.md. All workers must give it, or none; dist_async refuses it.
func WithSumsInAnyOrder() Option {
	return func(s *settings) { s.anyOrder = true }
}

// WithHostSums says whether the workers of one host add their gradients up through shared memory
// before one push leaves the host, and the new value comes back once. Without it PARAGON_HOST_SUMS
// says so; the default is HostSumsAuto. Only push-pulls of a synchronous store are added up, of
// dense keys, without a guard, and without compression or with fp16 or bf16. The servers then add
// up by host first, so the bits of a run depend on which workers share a host. All workers should
// have the same setting; one with HostSumsOff takes no part.
func WithHostSums(mode HostSums) Option {
	return func(s *settings) { s.hostSums = mode }
}

// withMember makes Create use this membership in place of joining a job. Close leaves the job and
// closes it.
func withMember(n member) Option {
	return func(s *settings) { s.node = n }
}

// WithEnv reads the environment variables that describe the job with getenv in place of os.Getenv;
// launch --help lists them.
func WithEnv(getenv func(string) string) Option {
	return func(s *settings) { s.getenv = getenv }
}

// WithPID gives the job another process number for this worker than its own, where the process works
// for another one that people know: `launch ctl status` and messages name it.
func WithPID(pid int) Option {
	return func(s *settings) { s.pid = pid }
}

// WithGuard makes the servers judge every contribution, shard by shard. Without it NaN and infinity
// go into the sum.
//
//	kvstore.WithGuard(kvstore.Guard{})                          // refuse what is not finite
//	kvstore.WithGuard(kvstore.Guard{Factor: 100})               // and norms of more than 100 times the median
//	kvstore.WithGuard(kvstore.Guard{Factor: 20, Clip: true})    // scale larger norms down
//
// A refused contribution counts as present with weight 0: its round closes over the others, whose
// mean is theirs alone. If all contributions of a round are refused, the value does not change. The
// servers' log names rank, host, key and step; Usage counts by worker; the worker that pushed it
// gets a line in its own log with its next pull, and the number from Caught. The examples of a
// refused contribution count as used: the step is not repeated.
//
// Every worker gives the same guard; another one is ErrConflict. Checkpoints do not hold the
// median: after a Load it begins anew, with Warmup. With 2bit, 1bit or topk the worker judges its
// gradients before it compresses them: one that is not finite, or larger than the limit that came
// with the last pull, stays out of the residual and is sent uncompressed, for the servers to refuse
// or clip. A worker that has pushed a key eight times without a pull then pulls by itself to learn
// the limit. On the server the guard reads each payload once more, a small part of the cost of
// adding it up.
func WithGuard(g Guard) Option {
	return func(s *settings) { s.guard = &g }
}

// HostSums says whether the workers of one host add their gradients up through shared memory before
// one push leaves the host.
type HostSums string

// The settings of WithHostSums.
const (
	// HostSumsAuto sums up shards whose server is on another host.
	HostSumsAuto HostSums = "auto"
	// HostSumsOn sums up all shards, also small ones: for tests and measurements.
	HostSumsOn  HostSums = "on"
	HostSumsOff HostSums = "off"
)
