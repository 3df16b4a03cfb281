package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// ReadObject reads all of an object of a known size, which is one example. An error that blames the
// data is in a Fault.
func ReadObject(ctx context.Context, store objects.Store, o objects.Info, buf []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Size == 0 {
		return nil, Fault{errors.New("the file is empty")}
	}
	buf, err := Room(buf, o.Size)
	if err != nil {
		return nil, Fault{err}
	}
	if err := store.ReadRange(ctx, o, buf, 0); err != nil {
		return nil, err
	}
	return buf, nil
}

// A Fault is an error that the data is to blame for, not the storage.
type Fault struct{ Err error }

func (f Fault) Error() string { return f.Err.Error() }

func (f Fault) Unwrap() error { return f.Err }

// Blame makes the error of reading example i of that name: a *BadError of a Fault, and of anything
// else an error that says which example was read.
func Blame(i int, name string, err error) error {
	var f Fault
	if errors.As(err, &f) {
		return &BadError{Example: i, Name: name, Err: f.Err}
	}
	return fmt.Errorf("data: read example %d (%s): %w", i, name, err)
}
