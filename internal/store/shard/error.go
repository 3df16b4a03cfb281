package shard

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// An Error says why the shard refuses a request. Its code is the one that a server sends in a Nack.
type Error struct {
	Code wire.Code
	Text string
}

func (e *Error) Error() string { return "shard: " + e.Text }

// refuse returns an Error whose text begins with the shard's name.
func (s *Shard) refuse(code wire.Code, format string, args ...any) error {
	return &Error{Code: code, Text: s.cfg.String() + ": " + fmt.Sprintf(format, args...)}
}
