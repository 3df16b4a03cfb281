package launched

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
)

// Lines are whole, however they come in pieces; those that were taken are not in errors, and
// neither are old ones.
func TestOutputIsReadByLines(t *testing.T) {
	var got []string
	o := &output{each: func(line string) bool {
		got = append(got, line)
		return strings.HasPrefix(line, "gc ")
	}}
	for _, b := range []byte("one\ngc 1\n\ntwo\nthree") {
		if _, err := o.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"one", "gc 1", "", "two"}; !slices.Equal(got, want) {
		t.Errorf("got the lines %q, want %q", got, want)
	}
	if got, want := o.tail(), "one\n\ntwo"; got != want {
		t.Errorf("the last lines: got %q, want %q", got, want)
	}
	for i := range 2 * lastLines {
		fmt.Fprintln(o, i)
	}
	if got := strings.Count(o.tail(), "\n") + 1; got != lastLines {
		t.Errorf("got %d last lines, want %d", got, lastLines)
	}
}

// The scheduler answers requests only with the job's credentials.
func TestTheJobIsFoundWithItsCredentials(t *testing.T) {
	j := &Job{runs: t.TempDir()}
	if err := j.Ask(t.Context(), control.Request{Op: control.OpStatus}, &control.Status{}); !errors.Is(err, ErrForming) {
		t.Fatalf("before there is a job: got %v, want %v", err, ErrForming)
	}
	f, err := record.Write(j.runs, record.Record{Job: "0123", Scheduler: "127.0.0.1:1", Credentials: []string{"PARAGON_SECRET=x", "PARAGON_OTHER=y=z"}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Remove()
	for name, want := range map[string]string{"PARAGON_SECRET": "x", "PARAGON_OTHER": "y=z", "PARAGON": ""} {
		if got, err := j.Credential(name); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}

// An error has what launch said last, and a wait ends with launch.
func TestAWaitEndsWithLaunch(t *testing.T) {
	dir := t.TempDir()
	j, err := Start(t.Context(), Config{Dir: dir, Launch: "/bin/sh", Args: []string{"-c", "echo no hosts; echo $MORE >&2; exit 3"}, Env: []string{"MORE=at all"}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	<-j.Ended()
	err = j.Explain(j.Until(t.Context(), "it trains", func() (bool, error) { return false, nil }))
	for _, want := range []string{"until it trains", "launch has ended: exit status 3", "no hosts", "at all"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to have %q", err, want)
		}
	}
}
