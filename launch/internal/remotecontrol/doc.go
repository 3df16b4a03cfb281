// Package remotecontrol carries the requests of `launch ctl` and `launch top` from another machine
// to a job, through the connection that its launcher has for agents (package dialin).
//
// Each connection carries one question and one answer. The question holds a control request, which
// the launcher passes on to the job's scheduler, or asks for the job's record or a link to its
// page. So one port of one machine is enough, even a forwarded one, and the job's own secrets never
// leave the launcher: whoever has the secret of its agents can inspect and change the job as launch
// ctl can, and do nothing else in its name.
//
// A message is JSON in a frame (package framing). With an answer of the scheduler a second frame
// follows, which has the answer as it came.
package remotecontrol

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
)

const (
	version = 1

	// maxQuestion is in bytes of its JSON, in which a request is a third longer.
	maxQuestion = 2 * control.MaxRequest

	// maxReply is in bytes of its JSON. A command line may be long.
	maxReply = 1 << 20

	// questionTime is the time for the question to come, and for an answer to be taken.
	questionTime = 5 * time.Second

	// answerTime is the time for the scheduler's answer, besides that for which the request may
	// wait.
	answerTime = 15 * time.Second
)

// A question is what launch ctl asks. Without a Request and a Link it asks for the record alone.
type question struct {
	Version int `json:"version"`

	// Job has the first characters of the job's ID; empty: it is whatever job runs.
	Job string `json:"job,omitempty"`

	// Request is for the scheduler.
	Request []byte `json:"request,omitempty"`

	// Link asks for a link to the job's page.
	Link bool `json:"link,omitempty"`
}

// A reply answers a question.
type reply struct {
	Version int `json:"version"`

	// Error is what went wrong.
	Error string `json:"error,omitempty"`

	// Refused says that this is the scheduler's answer to the request.
	Refused bool `json:"refused,omitempty"`

	// Job is the job's record without its secrets.
	Job record.Record `json:"job"`

	Link string `json:"link,omitempty"`

	// Answer says that the scheduler's answer follows.
	Answer bool `json:"answer,omitempty"`
}

// versionError is the error where the two ends have different versions.
func versionError(ctl, launcher int) error {
	older := "launch ctl"
	if launcher < ctl {
		older = "the launcher"
	}
	return fmt.Errorf("launch ctl asks by version %d and the launcher answers by version %d, so %s is older; use the same program for both", ctl, launcher, older)
}
