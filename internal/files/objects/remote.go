package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"time"
)

// A Backend has the requests of a store that others serve: each once, without trying again.
//
// Errors that no retry mends are fs.ErrNotExist, fs.ErrPermission, ErrChanged and those that
// Permanent made. RetryAfter says when another one is worth trying.
type Backend interface {
	// URL does what Store.URL says.
	URL() string
	// Page returns some of the objects whose names begin with the prefix, in the byte order of
	// their names: the first ones for an empty token, then those for the token that came with
	// the ones before. An empty next token ends the list.
	Page(ctx context.Context, prefix, token string) (page []Info, next string, err error)
	// Stat does what Store.Stat says.
	Stat(ctx context.Context, name string) (Info, error)
	// Get opens some bytes of the version of an object that info describes; length is above
	// zero and the range in the object. The body may end early.
	Get(ctx context.Context, object Info, off, length int64) (io.ReadCloser, error)
	// Close does what Store.Close says.
	Close() error
}

// A RetryConfig says how often requests are tried.
type RetryConfig struct {
	// Attempts is how often a request is tried without a byte of progress; 0 means 12.
	Attempts int
	// First and Most are the bounds of the wait between two attempts, which doubles each time;
	// 0 means 100 ms and 10 s. Half of the wait is drawn, so that the readers of a job do not
	// come back at once.
	First, Most time.Duration
	// Stall is how long a server may send nothing; 0 means StallLimit.
	Stall time.Duration
	// Logger is told about requests that fail for long; nil means slog.Default.
	Logger *slog.Logger
}

// longestRetryAfter bounds the wait that a server asks for.
const longestRetryAfter = time.Minute

// warnAt is the number of attempts in a row after whose failure the log is told.
const warnAt = 4

// NewRemote makes a Store of a Backend. Requests that fail are tried again, after a wait, and a
// read goes on at the byte that it had reached.
func NewRemote(backend Backend, cfg RetryConfig) Store {
	if cfg.Attempts == 0 {
		cfg.Attempts = 12
	}
	if cfg.First == 0 {
		cfg.First = 100 * time.Millisecond
	}
	if cfg.Most == 0 {
		cfg.Most = 10 * time.Second
	}
	if cfg.Stall == 0 {
		cfg.Stall = StallLimit
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &remote{backend, cfg}
}

type remote struct {
	backend Backend
	cfg     RetryConfig
}

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error that no retry mends.
func Permanent(err error) error { return permanentError{err} }

type laterError struct {
	error
	after time.Duration
}

func (e laterError) Unwrap() error { return e.error }

// RetryAfter marks an error of a server that asks for a wait.
func RetryAfter(err error, after time.Duration) error { return laterError{err, after} }

func isPermanent(err error) bool {
	var permanent permanentError
	return errors.As(err, &permanent) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrChanged)
}

// try calls attempt until it succeeds, its error is permanent, or it was tried often enough.
// Progress is what attempt has done in all, in any unit.
func (r *remote) try(ctx context.Context, request func() string, attempt func(ctx context.Context, guard *Guard) (progress int, err error)) error {
	wait, reached, inRow := r.cfg.First, 0, 0
	for failed := 1; ; failed++ {
		progress, err := r.once(ctx, attempt)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if isPermanent(err) {
			return err
		}
		if inRow++; progress > reached {
			reached, inRow, wait = progress, 1, r.cfg.First
		}
		// A server that sends a few bytes each time is given up at last.
		if inRow >= r.cfg.Attempts || failed >= 8*r.cfg.Attempts {
			return fmt.Errorf("gave up after %d attempts: %w", failed, err)
		}
		pause := wait/2 + rand.N(wait/2+1)
		var later laterError
		if errors.As(err, &later) {
			pause = max(pause, min(later.after, longestRetryAfter))
		}
		if inRow == warnAt {
			r.cfg.Logger.Warn("the store of the data does not answer; trying again", "request", request(), "attempts", failed, "err", err)
		}
		wait = min(2*wait, r.cfg.Most)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func (r *remote) once(ctx context.Context, attempt func(ctx context.Context, guard *Guard) (int, error)) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	ctx, guard := NewGuard(ctx, r.cfg.Stall)
	defer guard.Stop()
	progress, err := attempt(ctx, guard)
	if err != nil && !isPermanent(err) {
		err = Because(ctx, err)
	}
	return progress, err
}

func (r *remote) URL() string { return r.backend.URL() }

func (r *remote) Stat(ctx context.Context, name string) (info Info, err error) {
	request := func() string { return fmt.Sprintf("stat %s in %s", name, r.URL()) }
	err = r.try(ctx, request, func(ctx context.Context, _ *Guard) (int, error) {
		info, err = r.backend.Stat(ctx, name)
		return 0, err
	})
	if err != nil {
		return Info{}, fmt.Errorf("objects: %s: %w", request(), err)
	}
	return info, nil
}

func (r *remote) ReadRange(ctx context.Context, object Info, p []byte, off int64) error {
	request := func() string {
		return fmt.Sprintf("read %s in %s: %d bytes from byte %d of %d", object.Name, r.URL(), len(p), off, object.Size)
	}
	if err := CheckRange(object, p, off); err != nil {
		return fmt.Errorf("objects: %s: %w", request(), err)
	}
	if len(p) == 0 {
		return nil
	}
	n := 0
	err := r.try(ctx, request, func(ctx context.Context, guard *Guard) (int, error) {
		body, err := r.backend.Get(ctx, object, off+int64(n), int64(len(p)-n))
		if err != nil {
			return n, err
		}
		k, err := io.ReadFull(guard.Body(body), p[n:])
		n += k

		// All bytes are there, or err says why they are not.
		_ = body.Close()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	})
	if err != nil {
		return fmt.Errorf("objects: %s: after %d bytes: %w", request(), n, err)
	}
	return nil
}

func (r *remote) Close() error { return r.backend.Close() }
