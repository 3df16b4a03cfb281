// Package control is the JSON protocol between launcher, scheduler and tools about one job.
//
// A tool asks the scheduler with a Request, which travels in a wire.Control; the answer, in a
// wire.Report, is a Status, a Why, Events or a Done, depending on the request's Op. The scheduler
// writes Reports to its launcher on a pipe, one a line. When a job has ended, the launcher writes a
// Result. A Failure says why a job ended and which process is to blame: it is a code with fields,
// and only its String turns them into a sentence.
//
// All decoders are strict: an unknown field, a value out of range and too many bytes are errors
// that name the field. Fields may be added under a new version, once per release, since a side that
// does not know a field refuses the message.
package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The versions of the texts.
const (
	// Version is that of requests and their answers. A request without one was typed by a person, and
	// is read as this version.
	Version = 2
	// ResultVersion is that of Results.
	ResultVersion = 1
)

// Roles, as they are called in JSON.
const (
	Scheduler = "scheduler"
	Server    = "server"
	Worker    = "worker"
)

// The phases of a job.
const (
	Forming  = "forming" // nodes are missing
	Running  = "running"
	Finished = "finished" // all workers are done
	Failed   = "failed"
)

// ErrMalformed is in the chain of errors of text that is not the JSON it should be.
var ErrMalformed = errors.New("malformed")

// A malformedError is one with ErrMalformed in its chain, which it does not print.
type malformedError struct{ error }

func (malformedError) Is(target error) bool { return target == ErrMalformed }
func (e malformedError) Unwrap() error      { return e.error }

func malformed(what, format string, args ...any) error {
	return malformedError{fmt.Errorf("control: "+what+": "+format, args...)}
}

// decode reads JSON of at most so many bytes and nothing behind it.
func decode(what string, text []byte, most int, into any) error {
	if len(text) > most {
		return malformed(what, "%d bytes, want at most %d", len(text), most)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return malformed(what, "%w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return malformed(what, "more data after the JSON")
	}
	return nil
}

// encode is for structs of this package, which always marshal unless a number is not finite.
func encode(what string, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("control: %s: %w", what, err)
	}
	return b, nil
}
