package run

import (
	"errors"
	"io"
	"testing"

	"github.com/paragon-train/paragon/launch/internal/command"
)

// failing is an output that takes nothing.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestTheExitCodeIsThatOfTheJobUnlessItsOutputWasLost(t *testing.T) {
	whole, lost := command.NewOutput(io.Discard, io.Discard), command.NewOutput(failing{}, io.Discard)
	lost.Write([]byte("text"))
	broken := errors.New("broken")
	for _, tc := range []struct {
		err    error
		stdout io.Writer
		code   int
		reason bool
	}{
		{nil, whole, 0, false},
		{nil, io.Discard, 0, false},
		{command.ExitError(3), whole, 3, false},
		{command.ExitError(3), lost, 3, false},
		{broken, whole, 1, true},
		{nil, lost, 1, true},
	} {
		var o outcome
		if got := o.exitCode(tc.err, tc.stdout); got != tc.code || (o.err != nil) != tc.reason {
			t.Errorf("error %v: got code %d and the reason %v, want %d and a reason: %t", tc.err, got, o.err, tc.code, tc.reason)
		}
	}
}
