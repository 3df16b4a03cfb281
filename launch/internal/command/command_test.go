package command

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

func TestTheKindOfAnErrorIsTheExitCode(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
		said string
	}{
		{nil, 0, ""},
		{Usagef("-n is %d", 0), ExitUsage, "launch: -n is 0\nSee launch x --help.\n"},
		{Usage(errors.New("x: no")), ExitUsage, "x: no\nSee launch x --help.\n"},
		{fmt.Errorf("x: %w", Usagef("no")), ExitUsage, "x: launch: no\nSee launch x --help.\n"},
		{ExitError(85), 85, ""},
		{errors.New("launch: the disk is full"), 1, "launch: the disk is full\n"},
	} {
		var stderr bytes.Buffer
		if got := ExitCode(tc.err, "launch x", &stderr); got != tc.code || stderr.String() != tc.said {
			t.Errorf("error %v: got code %d and %q, want %d and %q", tc.err, got, stderr.String(), tc.code, tc.said)
		}
	}
}

// full is an output that takes some bytes.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

func TestALostOutputIsSaidOnceAndIsNoSuccess(t *testing.T) {
	var stderr bytes.Buffer
	o := NewOutput(&full{room: 4}, &stderr)
	if o.Write([]byte("text")); o.Code(0) != 0 {
		t.Errorf("code %d after a write that succeeded, want 0", o.Code(0))
	}
	for range 2 {
		o.Write([]byte("more"))
	}
	if o.Code(0) != 1 || o.Code(3) != 3 {
		t.Errorf("codes %d and %d for 0 and 3, want 1 and 3", o.Code(0), o.Code(3))
	}
	if want := "launch: write standard output: no space left; the output is incomplete\n"; stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
}

func TestNumbersOutOfBoundsAreNamed(t *testing.T) {
	for n, want := range map[int]string{0: "launch: -n is 0, want 1 to 5 workers", 6: "launch: -n is 6, want 1 to 5 workers", 1: "", 5: ""} {
		if err := CheckNumber("-n", n, 1, 5, " workers"); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%d: got %v, want %q", n, err, want)
		}
	}
}
