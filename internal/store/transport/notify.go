package transport

import (
	"context"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Notifier is a Caller that tells when a request has left.
type Notifier interface {
	Caller
	// CallNotify is Call, and calls sent, unless nil, on the caller's goroutine once the
	// request and its payload have been handed to the connection.
	CallNotify(ctx context.Context, sent func(), request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error)
}

var _ Notifier = (*Client)(nil)
