package shard

import (
	"errors"
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
func (c *Config) refuse(code wire.Code, format string, args ...any) error {
	return &Error{Code: code, Text: c.String() + ": " + fmt.Sprintf(format, args...)}
}

// full adds the shard's name and the verb of the request to an error of the vocabulary.
func (c *Config) full(verb string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return c.refuse(e.Code, "%s: %s", verb, e.Text)
	}
	return err
}
