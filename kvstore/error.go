package kvstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A ShardError says where a call of a Store failed. Its cause answers errors.Is with the package's
// errors, such as ErrStaleGeneration; where a server refused the call, its text has the server's
// reason.
type ShardError struct {
	// Verb is what was called: "push", "pull rows", "set optimizer".
	Verb string
	// Key is empty for calls that concern no single key.
	Key string
	// Shard is the index in the key's plan; -1: the whole key.
	Shard int
	// Round is the round pushed to, or the number of rounds that a pulled value must contain.
	// It means nothing without a Key.
	Round uint64
	// Peer is the server that was asked, such as "server 1 at 10.0.0.7:9090"; empty: no request
	// was made.
	Peer string
	Err  error
}

func (e *ShardError) Error() string {
	var b strings.Builder
	b.WriteString("kvstore: ")
	b.WriteString(e.Verb)
	if e.Key != "" {
		fmt.Fprintf(&b, " key %s", wire.Shown(e.Key))
		if e.Shard >= 0 {
			fmt.Fprintf(&b, " shard %d", e.Shard)
		}
		fmt.Fprintf(&b, " round %d", e.Round)
	}
	if e.Peer != "" {
		b.WriteString(": ")
		b.WriteString(e.Peer)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

func (e *ShardError) Unwrap() error { return e.Err }

// refused is a peer's Nack as an error of this package.
type refused struct {
	// is the error of this package that the code stands for; nil: none does.
	is error
	// ours is this worker's generation.
	ours    uint64
	refusal *transport.Refusal
}

func (e *refused) Error() string {
	text := e.refusal.Text
	switch {
	case e.refusal.Code == wire.CodeStaleGeneration:
		return fmt.Sprintf("%v: ours %d, theirs %d", ErrStaleGeneration, e.ours, e.refusal.Generation)
	case e.is == nil && text == "":
		return fmt.Sprintf("refused with code %d", e.refusal.Code)
	case e.is == nil:
		return text
	case text == "":
		return e.is.Error()
	}
	return e.is.Error() + ": " + text
}

func (e *refused) Unwrap() []error {
	if e.is == nil {
		return []error{e.refusal}
	}
	return []error{e.is, e.refusal}
}

// meaning returns the error of this package that a code stands for, or nil.
func meaning(code wire.Code) error {
	switch code {
	case wire.CodeStaleGeneration:
		return ErrStaleGeneration
	case wire.CodeUnknownKey:
		return ErrUnknownKey
	case wire.CodeDuplicateInit:
		return ErrDuplicateInit
	case wire.CodeSize:
		return ErrSize
	case wire.CodeConflict, wire.CodeTooFarAhead:
		return ErrConflict
	case wire.CodeFull:
		return ErrFull
	case wire.CodeUnsupported:
		return ErrUnsupported
	case wire.CodeRemoved:
		return ErrRemoved
	case wire.CodeUnknownNode, wire.CodeUnavailable, wire.CodeTimeout, wire.CodeUnauthorised, wire.CodeBusy:
		return ErrUnavailable
	}
	return nil
}

// keyError is an error found in this process, before any request.
func keyError(verb, key string, cause error, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if cause == nil {
		return fmt.Errorf("kvstore: %s key %s: %s", verb, wire.Shown(key), text)
	}
	if text == "" {
		return fmt.Errorf("kvstore: %s key %s: %w", verb, wire.Shown(key), cause)
	}
	return fmt.Errorf("kvstore: %s key %s: %w: %s", verb, wire.Shown(key), cause, text)
}

// Errors that callers ask for with errors.Is.
var (
	ErrUnknownKey      = errors.New("unknown key")
	ErrDuplicateInit   = errors.New("key initialised twice")
	ErrSize            = errors.New("wrong size")
	ErrStaleGeneration = errors.New("stale generation")
	ErrClosed          = errors.New("store closed")
	// ErrUnavailable: the job failed or ended, or a node could not be reached in time.
	ErrUnavailable = errors.New("job unavailable")
	ErrConflict    = errors.New("workers disagree")
	ErrUnsupported = errors.New("not supported by this store")
	// ErrFull: the limit of rows, or of its server's memory, is reached.
	ErrFull = errors.New("table full")
	// ErrNotFinite: a gradient has a NaN or an infinite value, for which its compression has no
	// code. Nothing was pushed.
	ErrNotFinite = errors.New("gradient not finite")
)
