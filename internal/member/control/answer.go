package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// ErrRefused is in the chain of errors of requests that the scheduler refused: asking again would
// not help.
var ErrRefused = errors.New("refused")

// ErrLater is in the chain, too, of errors of requests that may be granted a moment later.
var ErrLater = errors.New("not yet")

// MaxAnswer bounds an answer's JSON, which must fit a head.
const MaxAnswer = wire.MaxHead - 64

// An Answer is a *Status, *Why, *Events, *Wanted or *Done.
type Answer interface {
	refusal() (text string, again bool)
	check() error
}

// DecodeAnswer reads an answer. Where it says why nothing was done ErrRefused is in the error's
// chain.
func DecodeAnswer(text []byte, into Answer) error {
	if err := decode(fmt.Sprintf("answer %T", into), text, MaxAnswer, into); err != nil {
		return err
	}
	switch text, again := into.refusal(); {
	case text != "" && again:
		return fmt.Errorf("%w: %w: %s", ErrRefused, ErrLater, text)
	case text != "":
		return fmt.Errorf("%w: %s", ErrRefused, text)
	}
	return into.check()
}

// EncodeAnswer returns the JSON of an answer.
func EncodeAnswer(a Answer) ([]byte, error) {
	b, err := encode("answer", a)
	if err == nil && len(b) > MaxAnswer {
		return nil, fmt.Errorf("control: an answer of %d bytes, want at most %d", len(b), MaxAnswer)
	}
	return b, err
}

// Ask puts a request once, by whatever carries it, and reads the answer. raw is the answer as it
// came.
func Ask(ctx context.Context, carry func(ctx context.Context, request []byte) ([]byte, error), q Request, into Answer) (raw []byte, err error) {
	request, err := q.Encode()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if raw, err = carry(ctx, request); err != nil {
		return nil, err
	}
	return raw, DecodeAnswer(raw, into)
}

// Done is the answer to a request that something be done.
type Done struct {
	Error string `json:"error,omitempty"` // why nothing was done
	// Again says that it may be done a moment later.
	Again bool `json:"again,omitempty"`
	// Rank is that of the server that OpAddServer asked for.
	Rank uint32 `json:"rank,omitempty"`
	// Phase is the job's, after OpReport.
	Phase string `json:"phase,omitempty"`
	// Scale is the number of the event Scaling, after OpScale.
	Scale uint64 `json:"scale,omitempty"`
}

func (d *Done) refusal() (string, bool) { return d.Error, d.Again }

func (d *Done) check() error {
	switch {
	case d.Rank > maxRank:
		return fmt.Errorf("control: done: rank %d, want at most %d", d.Rank, maxRank)
	case d.Phase != "":
		return checkPhase("done", d.Phase)
	}
	return nil
}

// Why is the answer to OpWhy: who waits for whom at the scheduler, and the workers' pushes and
// pulls that have waited for seconds, longest first.
type Why struct {
	Error string `json:"error,omitempty"`
	Waits []Wait `json:"waits"`
	// Behind are the workers whose last step is not the newest, furthest behind first: rounds
	// wait for them.
	Behind []string `json:"behind,omitempty"`
	// Slow names the workers that others wait for in each round, the worst one first; none: no
	// one in particular.
	Slow []Slow `json:"slow,omitempty"`
}

// Wait is one wait.
type Wait struct {
	Who     string  `json:"who"`
	At      string  `json:"at"`
	For     string  `json:"for"`
	Seconds float64 `json:"seconds"`
}

func (w *Why) refusal() (string, bool) { return w.Error, false }

func (w *Why) check() error {
	for _, x := range w.Waits {
		if x.Seconds < 0 || x.Seconds > math.MaxInt32 {
			return fmt.Errorf("control: why: %s waits %g seconds, want 0 to %d", x.Who, x.Seconds, math.MaxInt32)
		}
	}
	return checkSlow("why", w.Slow)
}

func checkPhase(of, phase string) error {
	if !slices.Contains([]string{Forming, Running, Finished, Failed}, phase) {
		return fmt.Errorf("control: %s: phase %q: want %s, %s, %s or %s", of, phase, Forming, Running, Finished, Failed)
	}
	return nil
}
