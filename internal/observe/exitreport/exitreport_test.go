package exitreport_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/exitreport"
)

// environment is one in which a process is told of a file.
func environment(path string) func(string) string {
	return func(name string) string {
		if name == exitreport.Variable {
			return path
		}
		return ""
	}
}

func TestReportComesOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	err := fmt.Errorf("train: %w", exitreport.Final(exitreport.MissingFile, fs.ErrNotExist))
	exitreport.Tell(environment(path), err)
	want := exitreport.Report{Cause: exitreport.MissingFile, Text: "train: file does not exist"}
	if got := exitreport.Take(path); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := exitreport.Take(path); got != (exitreport.Report{}) {
		t.Errorf("the second time: got %+v, want none", got)
	}
}

func TestCheckpointIsNoFinalError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	exitreport.TellCheckpoint(environment(path), 120)
	if got := exitreport.Take(path); got != (exitreport.Report{Cause: exitreport.Checkpointed, Steps: 120}) || got.Final() {
		t.Errorf("got %+v, final %t; want a checkpoint after 120 steps, not final", got, got.Final())
	}
}

func TestOnlyFinalErrorsAreTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	exitreport.Tell(environment(path), nil)
	exitreport.Tell(environment(path), errors.New("no memory"))
	exitreport.Tell(environment(""), exitreport.Final(exitreport.Usage, errors.New("--epochs is 0")))
	if got := exitreport.Take(path); got != (exitreport.Report{}) {
		t.Errorf("got %+v, want none", got)
	}
}

func TestWithdrawnReportIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	exitreport.Tell(environment(path), exitreport.Final(exitreport.Usage, errors.New("--epochs is 0")))
	exitreport.Withdraw(environment(path))
	if got := exitreport.Take(path); got != (exitreport.Report{}) {
		t.Errorf("got %+v, want none", got)
	}
}

func TestMarkedErrorsKeepTextChainAndCause(t *testing.T) {
	err := exitreport.Final(exitreport.Usage, fs.ErrNotExist)
	if err.Error() != fs.ErrNotExist.Error() || !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, exitreport.ErrFinal) {
		t.Errorf("got %q, want the error as it was, and ErrFinal in its chain", err)
	}
	if again := exitreport.Final(exitreport.Program, err); again != err { //nolint:errorlint // a second mark would wrap it
		t.Errorf("marked twice: got %v, want the first mark alone", again)
	}
	if exitreport.Final(exitreport.Usage, nil) != nil {
		t.Error("nil was marked")
	}
}

// What a process left half written, or what comes from another program, is no report.
func TestWhatIsNoReportIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	for _, text := range []string{"", "{", `{"version":1,"cause":"us`, `{"version":2,"cause":"usage","text":"x"}`, `{"version":1,"cause":"mood","text":"x"}`, strings.Repeat("x", 1<<20)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := exitreport.Take(path); got != (exitreport.Report{}) {
			t.Errorf("%.40q: got %+v, want none", text, got)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	exitreport.Tell(environment(path), exitreport.Final(exitreport.Program, errors.New(strings.Repeat("é", 1<<20))))
	if got := exitreport.Take(path); len(got.Text) == 0 || len(got.Text) > 8<<10 || strings.ContainsRune(got.Text, '\uFFFD') {
		t.Errorf("got %d bytes, want whole characters of at most 8 KiB", len(got.Text))
	}
}
