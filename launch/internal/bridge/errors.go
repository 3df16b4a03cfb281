package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
)

// Classes of errors that package kvstore does not have.
var (
	// errUsage: an argument cannot be. Nothing has changed.
	errUsage = errors.New("wrong argument")
	// errProtocol: the other end speaks another protocol.
	errProtocol = errors.New("protocol")
	// errFull: too much is under way.
	errFull = errors.New("too many under way")
	// errCancelled: Python has cancelled the request.
	errCancelled = errors.New("cancelled")
)

// errorClasses are the classes of errors, the narrower ones first: an error has the first that is
// in its chain. Others are Internal.
var errorClasses = []struct {
	class string
	is    error
}{
	{"Usage", errUsage},
	{"Protocol", errProtocol},
	{"Full", errFull},
	{"Removed", kvstore.ErrRemoved},
	{"Finished", kvstore.ErrFinished},
	{"Lost", kvstore.ErrLost},
	{"Needed", kvstore.ErrNeeded},
	{"Damaged", checkpoint.ErrDamaged},
	{"UnknownKey", kvstore.ErrUnknownKey},
	{"DuplicateInit", kvstore.ErrDuplicateInit},
	{"Size", kvstore.ErrSize},
	{"Conflict", kvstore.ErrConflict},
	{"Unsupported", kvstore.ErrUnsupported},
	{"Full", kvstore.ErrFull},
	{"NotFinite", kvstore.ErrNotFinite},
	{"Closed", kvstore.ErrClosed},
	{"Cancelled", errCancelled},
	{"StaleGeneration", kvstore.ErrStaleGeneration},
	{"Unavailable", kvstore.ErrUnavailable},
	{"Unavailable", context.DeadlineExceeded},
	{"Cancelled", context.Canceled},
	{"Usage", fs.ErrNotExist},
	{"Usage", fs.ErrPermission},
}

// errorText is an error as Python gets it.
type errorText struct {
	Class string `json:"class"`
	Text  string `json:"text"`
	Key   string `json:"key,omitempty"`
	Final bool   `json:"final,omitempty"`
	// Number is of the exchange that failed; 0: a request did.
	Number uint64 `json:"number,omitempty"`
}

// maxErrorText bounds the text of an error, in bytes, so that it fits into a packet whatever its
// bytes become in JSON.
const maxErrorText = 4 << 10

// maxKeyText bounds the key of an error.
const maxKeyText = 1 << 10

// errorOf is err for Python. What no restart can mend and has no class is a setting.
func errorOf(err error) *errorText {
	e := &errorText{Class: "Internal", Text: shorten(err.Error(), maxErrorText), Final: errors.Is(err, kvstore.ErrFinal)}
	for _, c := range errorClasses {
		if errors.Is(err, c.is) {
			e.Class = c.class
			break
		}
	}
	if e.Class == "Internal" && e.Final {
		e.Class = "Usage"
	}
	var many kvstore.KeyErrors
	var shard *kvstore.ShardError
	switch {
	case errors.As(err, &many) && len(many) > 0:
		e.Key = many[0].Key
	case errors.As(err, &shard):
		e.Key = shard.Key
	}
	e.Key = shorten(e.Key, maxKeyText)
	return e
}

// shorten cuts a text to at most so many bytes of UTF-8.
func shorten(text string, most int) string {
	if len(text) > most {
		text = text[:most-3] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// usage is an error of class Usage.
func usage(format string, args ...any) error {
	return &classError{errUsage, fmt.Errorf(format, args...)}
}

// A classError is an error of a class whose text it does not have.
type classError struct{ class, err error }

func (e *classError) Error() string   { return e.err.Error() }
func (e *classError) Unwrap() []error { return []error{e.class, e.err} }
