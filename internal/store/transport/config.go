package transport

import (
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

const (
	// grace is how long a cancelled call waits for a write or read in its memory to end by
	// itself, before the connection, which others share, is closed.
	grace = 100 * time.Millisecond
	// handshakeTimeout is how long a handshake may take.
	handshakeTimeout = 5 * time.Second
	// stall is how long a frame that has begun may take, plus a second for each 64 KB: a link
	// slower than that cannot train.
	stall = time.Minute

	// smallFrame: frames up to this size are copied and written together.
	smallFrame = 16 << 10
	// batchLimit is the bytes of small frames that wait to be written; beyond it their senders
	// wait.
	batchLimit = 1 << 20
	// vectorBytes: large frames are written together up to this size.
	vectorBytes = 1 << 20
	// readBuffer is the size of a connection's buffer for small frames.
	readBuffer = 64 << 10
	// readAhead is how much of the buffer is read at once, before many small frames have come
	// and after a large one.
	readAhead = 16 << 10
	// keepScratch: buffers above this size are not kept for reuse.
	keepScratch = 64 << 10
)

// frameTime is how long a frame of n bytes may take once it has begun.
func frameTime(n int) time.Duration { return stall + time.Duration(n>>16)*time.Second }

// fewCores is the number of processors up to which one connection is the default within a host.
const fewCores = 4

// connectionsTo returns the default number of connections to a peer at addr. Within a host of few
// cores more connections only mean more bytes in transit than the caches hold, and early frames
// that wait for late ones. Under TLS each connection has goroutines that seal and open, so more of
// them use more processors.
func (cfg Config) connectionsTo(addr string) int {
	if host, _, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host).IsLoopback() && cfg.Identity == nil && runtime.GOMAXPROCS(0) <= fewCores {
		return 1
	}
	return 4
}

// withDefaults returns the Config with its zero fields replaced.
func (cfg Config) withDefaults() Config {
	if cfg.Network == nil {
		cfg.Network = TCP
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = 5 * time.Second
	}
	if cfg.MaxInFlight <= 0 {
		cfg.MaxInFlight = 4096
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return cfg
}

// nack returns the Nack for a Handler's error.
func nack(err error) *wire.Nack {
	var r *Refusal
	n := &wire.Nack{Code: wire.CodeInternal, Text: err.Error()}
	if errors.As(err, &r) {
		n.Code, n.Generation, n.Text = r.Code, r.Generation, r.Text
	} else if errors.Is(err, wire.ErrMalformed) {
		n.Code = wire.CodeMalformed
	}
	n.Text = strings.ToValidUTF8(n.Text, "?")
	if len(n.Text) > wire.MaxString {
		n.Text = strings.ToValidUTF8(n.Text[:wire.MaxString-1], "?")
	}
	return n
}
