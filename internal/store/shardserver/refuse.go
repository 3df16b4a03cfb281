package shardserver

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// refuse makes the error with which a request is refused. The generation is filled in by
// Server.nack, when the answer is made.
func refuse(code wire.Code, format string, args ...any) error {
	return &transport.Refusal{Code: code, Text: "server: " + fmt.Sprintf(format, args...)}
}
