package kvstore

import (
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// An Entry is one key's part of a PushMany or PushPullMany.
type Entry struct {
	Key string
	// Grads has one gradient for each local device; they are summed.
	Grads [][]float32
	// Outs are of a PushPullMany: the new value is copied into each. They may be Grads.
	Outs [][]float32
}

// A KeyError is the error of one key of a PushMany or PushPullMany. Err names the key as well.
type KeyError struct {
	Key string
	Err error
}

// KeyErrors are the keys of a PushMany or PushPullMany that failed, in the order in which they were
// given. errors.Is and errors.As look into all of them.
type KeyErrors []KeyError

func (e KeyErrors) Error() string {
	if len(e) == 1 {
		return e[0].Err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "kvstore: %d keys failed:", len(e))
	for i, k := range e {
		if i == shownErrors {
			fmt.Fprintf(&b, "\nand %d more: %s", len(e)-i, wire.Shown(k.Key))
			for _, k := range e[i+1:] {
				fmt.Fprintf(&b, ", %s", wire.Shown(k.Key))
			}
			break
		}
		b.WriteString("\n" + k.Err.Error())
	}
	return b.String()
}

// Unwrap returns the keys' errors.
func (e KeyErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i := range e {
		errs[i] = e[i].Err
	}
	return errs
}

// shownErrors is how many errors a message shows: after the loss of a server all keys fail with the
// same cause.
const shownErrors = 8
