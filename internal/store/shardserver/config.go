package shardserver

import (
	"log/slog"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Config configures a server. The zero value of a field takes the default beside it.
type Config struct {
	// MaxShards is the most shards, backups included: 2 Mi, so that two servers hold a job's
	// most keys with their backups.
	MaxShards int
	// MaxBytes is the most bytes of values and indices of rows, without optimizer state: 16
	// GiB.
	MaxBytes int64
	// MaxWait is the longest wait of a request, whatever it asks for: 1 h.
	MaxWait time.Duration
	// ExplainAfter is how long requests wait before the log says for whom, and the time between
	// two such lines: 5 s.
	ExplainAfter time.Duration
	// CatchUp is how long a request of a newer generation waits for the server to learn of that
	// generation: 5 s.
	CatchUp time.Duration

	// Recorder gets what the server measures of its shards: rounds, waits, memory, and blame.
	// Nil: nothing is measured.
	Recorder *telemetry.Recorder
	// Trace gets the spans of rounds, contributions and answers. Nil: none.
	Trace *trace.Recorder

	// Logger is by default slog.Default().
	Logger *slog.Logger
}

// Limits for one worker at one shard. The shard itself holds at most two contributions of each
// worker, so these leave room for repeats and for several pulls of a program.
const (
	// maxPushes bounds the payloads that are being read or wait for their round.
	maxPushes = 4
	// maxPulls bounds the answers that wait or are being written.
	maxPulls = 16
)

// maxManyPushes is how many pushes of one worker may be under way in messages of many: four full
// ones.
const maxManyPushes = 4 * wire.MaxPushes

// Limits over all shards: states read at once, and bytes of first values and states being received.
const (
	maxStateReads   = 4
	maxLoadingBytes = 32 * wire.MaxPayload
	// maxSlots bounds the slots of an optimizer in a WriteState; no rule has as many.
	maxSlots = 8
)

// limits bound the memory that senders can make a server hold, and the size of a frame.
type limits struct {
	// pushes and pulls are for one worker at one shard.
	pushes, pulls int
	// many is of the pushes of one worker in messages of many.
	many int64
	// loading is of the bytes of first values and states.
	loading int64
	// payload is of the bytes of one request or answer.
	payload uint64
}

// remote are the limits for senders in other processes. Senders in this process share its memory
// and use no frames.
var (
	remote = limits{maxPushes, maxPulls, maxManyPushes, maxLoadingBytes, wire.MaxPayload}
	local  = limits{math.MaxInt, math.MaxInt, math.MaxInt64, math.MaxInt64, shard.MaxLength}
)

// wait returns how long a request that asks for millis may wait.
func (c *Config) wait(millis uint32) time.Duration {
	return min(time.Duration(millis)*time.Millisecond, c.MaxWait)
}

// withDefaults returns the Config with its zero fields replaced.
func (c Config) withDefaults() Config {
	if c.MaxShards <= 0 {
		c.MaxShards = 2 << 20
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 16 << 30
	}
	if c.MaxWait <= 0 {
		c.MaxWait = time.Hour
	}
	if c.ExplainAfter <= 0 {
		c.ExplainAfter = 5 * time.Second
	}
	if c.CatchUp <= 0 {
		c.CatchUp = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = joblog.Process()
	}
	return c
}
