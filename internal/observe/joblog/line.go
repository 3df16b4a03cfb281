package joblog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"
)

// Object reports whether a line of text is a JSON object, as a program that logs JSON writes it.
func Object(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 1 && line[0] == '{' && utf8.Valid(line) && json.Valid(line)
}

// Ours reports whether a line is one that says who wrote it, as those of New do.
func Ours(line []byte) bool {
	if !Object(line) {
		return false
	}
	var said struct {
		Job, Role *string
		Rank      *int
	}
	return json.Unmarshal(line, &said) == nil && said.Job != nil && said.Role != nil && said.Rank != nil
}

// Summary is one of our lines as text: when, how grave and what; false: it is none of ours.
func Summary(line []byte) (text string, ok bool) {
	if !Ours(line) {
		return "", false
	}
	var said struct{ Time, Level, Msg string }
	if err := json.Unmarshal(line, &said); err != nil {
		return "", false
	}
	return said.Time + " " + said.Level + " " + said.Msg, true
}

// Output is the JSON line, with its end, for a line that a process printed on its standard error:
// the line itself if it is one of ours. A JSON object of the program's own becomes the value
// "record", and other text is the message. more: the line is cut, and its rest follows.
func Output(who Identity, at time.Time, line []byte, more bool) []byte {
	if Ours(line) {
		return append(bytes.TrimSpace(line), '\n')
	}
	var b bytes.Buffer
	r := slog.NewRecord(at, slog.LevelInfo, "", 0)
	if Object(line) {
		r.AddAttrs(ProcessOutput.With("record", json.RawMessage(bytes.TrimSpace(line))))
	} else {
		r.Message = string(line)
		r.AddAttrs(ProcessOutput.With("more", more))
	}
	h := New(&b, slog.LevelInfo, who).Handler()
	if err := h.Handle(context.Background(), r); err != nil {
		panic(fmt.Sprintf("joblog: write into memory: %v", err))
	}
	return b.Bytes()
}
