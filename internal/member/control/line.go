package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The streams of a Line.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Prepare is the role of a process that prepares a host (--prepare-data). It is no node of the job.
const Prepare = "prepare"

// MaxLine bounds the JSON of a Line: 64 KiB of text in which every byte needs an escape.
const MaxLine = 512 << 10

// A Line is what a process of a job printed, as `launch --output json` writes it to its standard
// output: one Line on each line. Bytes that are not UTF-8 are replaced.
type Line struct {
	Role string `json:"role"`
	// Rank is the one that the process has at this time; of a worker that has not joined yet its
	// number among the workers.
	Rank   int    `json:"rank"`
	Stream string `json:"stream"`
	Text   string `json:"text"` // without its end
	// More says that the line was longer than 64 KiB: its rest is the next Line of this stream.
	More bool `json:"more,omitempty"`
	// Record is a line of a standard error that is a JSON object, where the job logs JSON
	// (launch --log-format json). Then the text is empty in the encoded Line, and DecodeLine
	// sets it to the JSON.
	Record JSON `json:"record,omitempty"`
}

// JSON is JSON that is passed on as it is; unlike json.RawMessage it can be compared.
type JSON string

// MarshalJSON implements json.Marshaler.
func (j JSON) MarshalJSON() ([]byte, error) { return []byte(j), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (j *JSON) UnmarshalJSON(text []byte) error { *j = JSON(text); return nil }

// Encode returns the JSON of a line, and a newline. Its Record must be valid JSON.
func (l Line) Encode() []byte {
	if l.Record != "" {
		l.Text = ""
	}
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // strings, a number, a bool and JSON always marshal
	}
	return append(b, '\n')
}

// DecodeLine reads one line.
func DecodeLine(text []byte) (Line, error) {
	var l Line
	if err := decode("line", text, MaxLine, &l); err != nil {
		return Line{}, err
	}
	if l.Record != "" {
		if l.Record[0] != '{' || l.Text != "" {
			return Line{}, malformed("line", "want a JSON object as the record, and then no text")
		}
		l.Text = string(l.Record)
	}
	return l, l.check()
}

func (l *Line) check() error {
	switch {
	case l.Role != Worker && l.Role != Server && l.Role != Scheduler && l.Role != Prepare:
		return fmt.Errorf("control: line: role %q: want worker, server, scheduler or prepare", l.Role)
	case l.Rank < 0:
		return fmt.Errorf("control: line: rank %d, want 0 or more", l.Rank)
	case l.Stream != Stdout && l.Stream != Stderr:
		return fmt.Errorf("control: line: stream %q: want stdout or stderr", l.Stream)
	}
	return nil
}

// ReadLines calls each for every Line of r, until r ends.
func ReadLines(r io.Reader, each func(Line)) error {
	// The newline fits, too, and one byte more, which shows that there is too much.
	in := bufio.NewReaderSize(r, MaxLine+2)
	for {
		text, err := in.ReadSlice('\n')
		if len(bytes.TrimSpace(text)) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("control: read lines: %w", err)
		}
		l, malformed := DecodeLine(text)
		if malformed != nil {
			return malformed
		}
		each(l)
		if err != nil {
			return nil
		}
	}
}
