// Package exitreport carries what a process says of its own end to the agent that started it.
//
// An exit code does not tell whether it helps to start the process again: a machine without memory
// and a misspelt flag both end with 1. So the agent names a file to each process, in Variable. A
// process that meets an error which no restart can mend writes a Report there and ends; the agent
// hands the Report over with the exit code. A process that knows nothing of it writes none, and is
// started again as the job's flags say.
//
//	if !exists(path) {
//		err = exitreport.Final(exitreport.MissingFile, err)
//		exitreport.Tell(os.Getenv, err)
//	}
package exitreport

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
)

// Variable names the file of a process.
const Variable = "PARAGON_EXIT_REPORT"

// version is the version of the text in the file.
const version = 1

const (
	// maxText bounds Report.Text, in bytes.
	maxText = 8 << 10

	// maxFile bounds the file, in bytes.
	maxFile = 64 << 10
)

// A Cause is what no restart can mend. It is a code: the words are in Text.
type Cause string

// The causes.
const (
	Usage    Cause = "usage"     // a flag, variable or setting is wrong
	OtherRun Cause = "other_run" // the folder has another run's checkpoints

	// NoResume says that the checkpoint to resume from is not there, or does not fit this run: it
	// has another model, data or batch.
	NoResume Cause = "no_resume"

	Damaged     Cause = "damaged"      // the checkpoint is damaged
	MissingFile Cause = "missing_file" // a file is not there

	// Program is another cause, by the program's own decision.
	Program Cause = "program"

	// Checkpointed is no error: the process stopped as it was asked to, and its job has a
	// complete checkpoint after Steps steps.
	Checkpointed Cause = "checkpointed"
)

var causes = []Cause{Usage, OtherRun, NoResume, Damaged, MissingFile, Program, Checkpointed}

// A Report is what a process says of its end. The zero Report is none.
type Report struct {
	Cause Cause  `json:"cause"`
	Text  string `json:"text"` // the process's own words
	Steps uint64 `json:"steps,omitempty"`
}

// Final reports whether no restart can mend what went wrong.
func (r Report) Final() bool { return r.Cause != "" && r.Cause != Checkpointed }

type file struct {
	Version int `json:"version"`
	Report
}

// ErrFinal is in the chain of errors that no restart can mend.
var ErrFinal = errors.New("no restart can mend it")

// A finalError is an error that no restart can mend.
type finalError struct {
	error
	cause Cause
}

func (e *finalError) Unwrap() error        { return e.error }
func (e *finalError) Is(target error) bool { return target == ErrFinal }

// Final marks err, with its text as it is. nil stays nil, and what is marked keeps its cause.
func Final(cause Cause, err error) error {
	if err == nil || errors.Is(err, ErrFinal) {
		return err
	}
	return &finalError{err, cause}
}

// Tell writes the Report of err for whoever started this process, if err is Final and somebody
// wants it. Nothing is lost where it cannot be written: the process is then started again in vain.
func Tell(getenv func(string) string, err error) {
	var final *finalError
	if !errors.As(err, &final) {
		return
	}
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	write(getenv, Report{Cause: final.cause, Text: text})
}

// TellCheckpoint writes the Report of a process that stops as it was asked to, after so many steps
// of its job, with a complete checkpoint.
func TellCheckpoint(getenv func(string) string, steps uint64) {
	write(getenv, Report{Cause: Checkpointed, Steps: steps})
}

func write(getenv func(string) string, r Report) {
	path := getenv(Variable)
	if path == "" {
		return
	}
	if b, err := json.Marshal(file{version, r}); err == nil {
		_ = os.WriteFile(path, b, 0o600)
	}
}

// Withdraw removes the Report: the process goes on after all.
func Withdraw(getenv func(string) string) {
	if path := getenv(Variable); path != "" {
		_ = os.Remove(path)
	}
}

// Take reads the Report of a process that has ended, and removes it. What is no Report is none.
func Take(path string) Report {
	f, err := os.Open(path)
	if err != nil {
		return Report{}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	f.Close()
	_ = os.Remove(path)
	var got file
	if err != nil || json.Unmarshal(b, &got) != nil || got.Version != version || !slices.Contains(causes, got.Cause) {
		return Report{}
	}
	return got.Report
}
