package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/wire"
)

const (
	// grace is how long a call that was given up waits for a write or read in its memory to end by itself.
	grace = 100 * time.Millisecond
	// handshakeTimeout is how long a peer has to prove itself.
	handshakeTimeout = 5 * time.Second
	// stall is how long a frame that has begun may take to pass, besides a second for each 64 KB.
	stall = time.Minute

	smallFrame  = 16 << 10 // frames up to this are copied and travel together
	batchLimit  = 1 << 20  // bytes of small frames waiting to be written; beyond it their senders wait
	vectorBytes = 1 << 20  // large frames are written together up to this
	readBuffer  = 64 << 10 // of a connection
	readAhead   = 16 << 10 // of it, before many small frames come and after a large one
	keepScratch = 64 << 10 // buffers above this are not kept for reuse
)

// frameTime is how long a frame of n bytes may take once it has begun.
func frameTime(n int) time.Duration { return stall + time.Duration(n>>16)*time.Second }

// fewCores is up to how many processors one connection is the default within a host.
const fewCores = 4

// connectionsTo returns the default for a peer at addr. Within a host of few cores more connections only keep more bytes
// between the two ends than the caches hold, and let early frames wait for late ones.
func connectionsTo(addr string) int {
	if host, _, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host).IsLoopback() && runtime.GOMAXPROCS(0) <= fewCores {
		return 1
	}
	return 4
}

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

// Error says who refused, and why.
func (r *Refusal) Error() string {
	if r.Addr == "" {
		return fmt.Sprintf("%v: %s", r.Code, r.Text)
	}
	return fmt.Sprintf("%s: %v: %s", r.Addr, r.Code, r.Text)
}

// Refuse makes the error by which a Handler refuses a request.
func Refuse(code wire.Code, generation uint64, format string, args ...any) error {
	return &Refusal{Code: code, Generation: generation, Text: fmt.Sprintf(format, args...)}
}

// nack is the answer that an error of a Handler becomes.
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
