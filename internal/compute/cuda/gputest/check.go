package gputest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

var (
	// begun is when the process was.
	begun = time.Now()

	on bool // the tests are on the GPU

	// lost says that it cannot be used any more in this process.
	lost bool

	// current is the check under way.
	current *check
)

// A check collects rows.
type check struct {
	rows []Row
	said bool   // rows of its own
	note string // ends the details of rows
}

// Note says something in the check's rows.
func Note(format string, args ...any) {
	if current != nil {
		current.note += "; " + fmt.Sprintf(format, args...)
	}
}

// On says whether tests run on the GPU itself.
func On() bool { return on }

// Number is the number of the GPU, PARAGON_TEST_GPU; 0 on stand-ins.
func Number() int {
	if !on {
		return 0
	}
	n, _ := strconv.Atoi(os.Getenv("PARAGON_TEST_GPU")) // the driver refuses what is none
	return n
}

// Open opens the machine's driver. The search finds libraries that it can work with.
func Open() (*drv.Driver, *dl.Search, error) {
	search := &dl.Search{}
	lib, err := search.Open(dl.CUDA)
	if err != nil {
		return nil, nil, err
	}
	d, err := drv.Open(lib)
	if err == nil {
		search.Major, _ = d.Version()
	}
	return d, search, err
}

// Begin has a test and what it calls run on the GPU. It skips the test where there is none.
func Begin(t *testing.T) {
	t.Helper()
	d, _, err := Open()
	if err == nil {
		_, err = d.Devices()
	}
	if err != nil {
		t.Skip(err)
	}
	on = true
	t.Cleanup(func() { on = false })
}

// Check runs f as a subtest. What it handed to Within is reported when it ends; a row says that it
// is well if there was nothing else. It is skipped if no time is left for it, or the GPU is lost.
func Check(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		switch {
		case lost:
			t.Skip("the GPU is lost to this process")
		case Context(t).Err() != nil:
			t.Skip("no time is left for it")
		}
		c := &check{}
		current = c
		defer func() {
			current = nil
			for _, r := range c.rows {
				r.Name, r.Detail = name+r.Name, r.Detail+c.note
				t.Attr(Key, r.Text())
			}
			if len(c.rows) == 0 && !c.said && !t.Failed() && !t.Skipped() {
				Report(t, Row{Name: name, Status: OK, Detail: strings.TrimPrefix(c.note, "; ")})
			}
		}()
		f(t)
	})
}

// Must ends the test if there is an error. The checks after one that lost the GPU are skipped.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		lost = lost || errors.Is(err, drv.ErrLost)
		t.Fatal(err)
	}
}

// Margin is by how much one gives up before it is ended, so that it can end others and say how far
// it came.
func Margin(limit time.Duration) time.Duration {
	return min(limit/2, max(limit/10, 3*time.Second))
}

// Context ends a little before the process's time (-test.timeout).
func Context(t *testing.T) context.Context {
	end, hasEnd := t.Deadline()
	if !hasEnd {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), end.Add(-Margin(end.Sub(begun))))
	t.Cleanup(cancel)
	return ctx
}

// After is when a share of what time is left will have passed.
func After(t *testing.T, share float64) time.Time {
	end, hasEnd := Context(t).Deadline()
	if !hasEnd {
		return time.Now().Add(time.Hour)
	}
	return time.Now().Add(time.Duration(share * float64(time.Until(end))))
}
