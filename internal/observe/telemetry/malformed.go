package telemetry

import (
	"errors"
)

// ErrMalformed is in the chain of errors about bytes that are no Record.
var ErrMalformed = errors.New("malformed record")
