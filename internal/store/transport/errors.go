package transport

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// Errors that callers ask for.
var (
	// ErrConnection: the peer could not be reached or the connection broke before the answer;
	// repeating may help.
	ErrConnection = errors.New("connection lost")
	// ErrClosed: the Client or Server was closed.
	ErrClosed = errors.New("closed")
	// ErrAuth: the peer does not hold the job's secret, or has no certificate of the job and of
	// the right role.
	ErrAuth = errors.New("peer did not prove that it belongs to this job")
	// ErrVersion: the peer was built from another version of Paragon. Such an error is an
	// ErrAuth, too.
	ErrVersion = errors.New("peer has another version of Paragon")
)

// A Refusal is a Nack as an error: the peer received the request and refused it.
type Refusal struct {
	Addr string
	Code wire.Code
	// Generation is the peer's.
	Generation uint64
	Text       string
}

// Refuse returns the error with which a Handler refuses a request.
func Refuse(code wire.Code, generation uint64, format string, args ...any) error {
	return &Refusal{Code: code, Generation: generation, Text: fmt.Sprintf(format, args...)}
}

// Error says which peer refused, and why.
func (r *Refusal) Error() string {
	if r.Addr == "" {
		return fmt.Sprintf("%v: %s", r.Code, r.Text)
	}
	return fmt.Sprintf("%s: %v: %s", r.Addr, r.Code, r.Text)
}
