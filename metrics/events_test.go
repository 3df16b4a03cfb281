package metrics

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// eventBytes is what TensorFlow writes for a first record at 1700000000.5 and ray/tune/accuracy = 0.75 at step 7, one second later.
const eventBytes = "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b3531102700000000000000bbe1b1460900006040fc54d94110072a1a0a180a117261792f74756e652f6163637572616379150000403f8643d46b"

func TestEventFileHasTensorFlowsBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	first := time.Unix(1700000000, 5e8)
	f, err := NewEventFile(dir, "rank-0", first)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Add(7, first.Add(time.Second), Scalar{"ray/tune/accuracy", 0.75}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := filepath.Base(f.Path()), "events.out.tfevents.1700000000.rank-0"; got != want {
		t.Errorf("the file is called %q, want %q", got, want)
	}
	b, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(b); got != eventBytes {
		t.Errorf("the file holds\n%s, want\n%s", got, eventBytes)
	}
	if _, err := NewEventFile(dir, "rank-0", first); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second file of the same name: %v, want %v", err, os.ErrExist)
	}
}

func TestReadEventsGivesWhatWasAdded(t *testing.T) {
	b, err := hex.DecodeString(eventBytes)
	if err != nil {
		t.Fatal(err)
	}
	want := []Event{
		{Time: 1700000000.5, Version: "brain.Event:2"},
		{Time: 1700000001.5, Step: 7, Scalars: []Scalar{{"ray/tune/accuracy", 0.75}}},
	}
	got, err := ReadEvents(bytes.NewReader(b))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for n := range b {
		got, err := ReadEvents(bytes.NewReader(b[:n]))
		switch {
		case n == 0 || n == 40:
			if err != nil {
				t.Errorf("cut off after %d bytes, between records: %v", n, err)
			}
		case !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("cut off after %d bytes: %d records, %v, want %v", n, len(got), err, io.ErrUnexpectedEOF)
		}
		broken := bytes.Clone(b)
		broken[n] ^= 1
		if _, err := ReadEvents(bytes.NewReader(broken)); err == nil {
			t.Errorf("byte %d is another: no error", n)
		}
	}
}

type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	d.left -= n
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func (d *fullDisk) Close() error { return nil }

// A record that was written in part must not be followed by another.
func TestEventFileStaysBrokenAfterPartOfARecord(t *testing.T) {
	e := &EventFile{out: &fullDisk{left: 10}, path: "x"}
	err := e.Add(1, time.Unix(1, 0), Scalar{"a", 1})
	if err == nil {
		t.Fatal("no error on a full disk")
	}
	e.out = &fullDisk{left: 1000}
	if again := e.Add(2, time.Unix(2, 0), Scalar{"a", 2}); again == nil {
		t.Errorf("after %v a record more was written", err)
	}
}

func FuzzReadEvents(f *testing.F) {
	b, err := hex.DecodeString(eventBytes)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		// Checksums would keep the fuzzer out: it goes for the message, too.
		if _, err := parseEvent(b); err == nil && len(b) > 0 {
			_, _ = ReadEvents(bytes.NewReader(b))
		}
	})
}
