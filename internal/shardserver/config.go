package shardserver

import (
	"log/slog"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/wire"
)

// Config configures a server. The zero value of a field takes the default beside it.
type Config struct {
	MaxShards int           // shards held: 1 Mi
	MaxBytes  int64         // of all values and indices of rows together, without optimizer state: 16 GiB
	MaxWait   time.Duration // the longest a request may wait, whatever it asks for: 1 h
	// ExplainAfter is how long requests wait before the log says whom for, every so often: 5 s.
	ExplainAfter time.Duration
	// CatchUp is how long a request of a newer generation than the server knows waits for the server to hear of it: 5 s.
	CatchUp time.Duration

	Logger *slog.Logger // that of Run's cluster.Config, or slog.Default()
}

// What one worker may have under way at one shard. The shard itself holds at most two contributions of each worker.
const (
	maxPushes = 4  // payloads read or waiting for their turn
	maxPulls  = 16 // answers waited for or being written
)

// Limits over all shards: how many states are read at once, and how many bytes of first values and states may be on
// their way into shards.
const (
	maxStateReads   = 4
	maxLoadingBytes = 32 * wire.MaxPayload
	maxSlots        = 8 // of an optimizer's state in a WriteState
)

// limits bound what senders can make a server hold, and what one frame carries.
type limits struct {
	pushes, pulls int    // of one worker at one shard
	loading       int64  // bytes of first values and states
	payload       uint64 // bytes of one request or answer
}

// remote are the limits for senders in other processes; those of this process share its memory, and no frame is between.
var (
	remote = limits{maxPushes, maxPulls, maxLoadingBytes, wire.MaxPayload}
	local  = limits{math.MaxInt, math.MaxInt, math.MaxInt64, shard.MaxLength}
)

func (c Config) withDefaults() Config {
	if c.MaxShards <= 0 {
		c.MaxShards = 1 << 20
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
		c.Logger = slog.Default()
	}
	return c
}
