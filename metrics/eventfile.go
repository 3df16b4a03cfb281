package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An EventFile is a file of scalars, texts and hyper-parameters that TensorBoard reads.
//
// It is a sequence of TFRecords, each
//
//	offset  size  field
//	     0     8  n, little-endian
//	     8     4  masked CRC of the eight bytes before
//	    12     n  a protobuf message Event
//	  12+n     4  masked CRC of the message
//
// where the CRC is CRC-32C, rotated right by 15 bits plus 0xa282ead8. The first record is the
// version, the second a START of a session.
//
// One writer at a time uses a folder, which TensorBoard shows as one run. It reads the folder's
// files in the order of their names; a START in a later one takes away what the earlier ones have
// from its step on. So a writer that resumes at a step leaves no overlap.
//
// Records are written whole. They are held back for at most two seconds, so a process that is
// killed loses no more than that, and what it has written can be read up to the last whole record.
// All methods may be called concurrently.
type EventFile struct {
	path string

	// mu guards the rest.
	mu  sync.Mutex
	out io.WriteCloser
	// buf has whole records that are not written yet.
	buf []byte
	// later flushes if it is armed.
	later *time.Timer
	armed bool
	// err is that of a write, after which the file may end in the middle of a record.
	err error
}

const (
	flushAfter = 2 * time.Second
	flushBytes = 32 << 10
)

// NewEventFile makes a new file in a folder, which it makes too. Its name has what TensorBoard
// looks for, a time, which is later than that of the folder's other event files, and suffix. step
// is the first one to come: what those files have from it on no longer counts.
func NewEventFile(dir, suffix string, step int64, now time.Time) (*EventFile, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("metrics: event file: %w", err)
	}
	f, err := createEventFile(dir, suffix, now)
	if err != nil {
		return nil, fmt.Errorf("metrics: event file: %w", err)
	}
	e := &EventFile{out: f, path: f.Name()}
	e.later = time.AfterFunc(time.Hour, e.flushLater)
	e.later.Stop()
	e.record(appendVersion(appendEvent(nil, now, 0)))
	e.record(appendStart(appendEvent(nil, now, step)))
	if err := e.Flush(); err != nil {
		f.Close()
		return nil, err
	}
	return e, nil
}

// createEventFile makes a file whose name sorts behind those of the other event files.
func createEventFile(dir, suffix string, now time.Time) (*os.File, error) {
	// Writers may begin in the same folder at the same time, against the rule.
	const tries = 10
	seconds := now.Unix()
	for try := 1; ; try++ {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if t, ok := timeOfEventFile(entry.Name()); ok {
				seconds = max(seconds, t+1)
			}
		}
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s%010d.%s", eventFilePrefix, seconds, suffix)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, os.ErrExist) || try == tries {
			return f, err
		}
	}
}

const eventFilePrefix = "events.out.tfevents."

// timeOfEventFile is the time in the name of an event file, in seconds since 1970. Names are
// ordered by it while it has ten digits.
func timeOfEventFile(name string) (seconds int64, ok bool) {
	rest, ok := strings.CutPrefix(name, eventFilePrefix)
	digits, _, _ := strings.Cut(rest, ".")
	if !ok || len(digits) != 10 {
		return 0, false
	}
	seconds, err := strconv.ParseInt(digits, 10, 64)
	return seconds, err == nil && seconds < 9999999999
}

// Path is the file's.
func (e *EventFile) Path() string { return e.path }

// Add writes the scalars of one step. Numbers are stored as float32.
func (e *EventFile) Add(step int64, now time.Time, scalars ...Scalar) error {
	if len(scalars) == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	begin := e.begin()
	e.buf = appendScalars(appendEvent(e.buf, now, step), scalars)
	return e.end(begin)
}

// AddText writes a text, which TensorBoard shows as Markdown.
func (e *EventFile) AddText(step int64, now time.Time, tag, text string) error {
	return e.add(appendValue(appendEvent(nil, now, step), textValue(tag, text)))
}

// add writes an event and all before it.
func (e *EventFile) add(event []byte) error {
	e.record(event)
	return e.Flush()
}

func (e *EventFile) record(event []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	begin := e.begin()
	e.buf = append(e.buf, event...)
	_ = e.end(begin) // which keeps it
}

// Flush writes all records that are held back.
func (e *EventFile) Flush() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flush()
}

// Close writes what is held back and closes the file.
func (e *EventFile) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.out == nil {
		return e.err
	}
	err := e.flush()
	if closed := e.out.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("metrics: close event file %s: %w", e.path, closed))
	}
	e.out = nil
	if e.err == nil {
		e.err = fmt.Errorf("metrics: event file %s: %w", e.path, os.ErrClosed)
	}
	return err
}

// begin leaves room for the head of a record, whose event follows in buf.
func (e *EventFile) begin() int {
	begin := len(e.buf)
	e.buf = append(e.buf, make([]byte, recordHead)...)
	return begin
}

// recordHead is the bytes of a record before its event.
const recordHead = 12

// end completes the record that begins there. It is written soon.
func (e *EventFile) end(begin int) error {
	if e.err != nil {
		e.buf = e.buf[:0]
		return e.err
	}
	head, event := e.buf[begin:begin+recordHead], e.buf[begin+recordHead:]
	binary.LittleEndian.PutUint64(head, uint64(len(event)))
	binary.LittleEndian.PutUint32(head[8:], maskedCRC(head[:8]))
	e.buf = binary.LittleEndian.AppendUint32(e.buf, maskedCRC(event))
	if len(e.buf) >= flushBytes {
		return e.flush()
	}
	if !e.armed {
		e.armed = true
		e.later.Reset(flushAfter)
	}
	return nil
}

// flush writes the buffer. The caller holds mu.
func (e *EventFile) flush() error {
	if e.armed {
		e.later.Stop()
		e.armed = false
	}
	if e.err != nil || len(e.buf) == 0 {
		return e.err
	}
	n, err := e.out.Write(e.buf)
	if err != nil {
		e.err = fmt.Errorf("metrics: event file %s: wrote %d of %d bytes: %w", e.path, n, len(e.buf), err)
	}
	e.buf = e.buf[:0]
	return e.err
}

// flushLater is what the timer calls. The next call returns the error.
func (e *EventFile) flushLater() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.armed && e.out != nil {
		_ = e.flush() // which keeps it
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
