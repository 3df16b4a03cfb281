package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// An EventFile is a file of scalars that TensorBoard reads.
//
// It is a sequence of TFRecords, each
//
//	offset  size  field
//	     0     8  n, little-endian
//	     8     4  masked CRC of the eight bytes before
//	    12     n  a protobuf message Event
//	  12+n     4  masked CRC of the message
//
// where the CRC is CRC-32C, rotated right by 15 bits plus 0xa282ead8. Of Event
// are written: 1 wall_time (double, seconds since 1970), 2 step (int64), 3
// file_version (string, the first record alone) and 5 summary; of Summary: 1
// value; of Value: 1 tag (string), 2 simple_value (float).
//
// One goroutine at a time may use it.
type EventFile struct {
	out  io.WriteCloser
	path string
	buf  []byte
	err  error // of a write, after which the file ends in the middle of a record
}

// A Scalar is one number of a step.
type Scalar struct {
	Tag   string // such as "train/loss"; TensorBoard groups tags by what stands before the slash
	Value float64
}

// NewEventFile makes a new file in a folder, which it makes too. Its name has what TensorBoard looks for, the time, and suffix, by
// which writers of one folder are told apart.
func NewEventFile(dir, suffix string, now time.Time) (*EventFile, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("metrics: event file: %w", err)
	}
	name := fmt.Sprintf("events.out.tfevents.%d.%s", now.Unix(), suffix)
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("metrics: event file: %w", err)
	}
	e := &EventFile{out: f, path: f.Name()}
	if err := e.record(appendEvent(nil, now, 0, "brain.Event:2", nil)); err != nil {
		f.Close()
		return nil, err
	}
	return e, nil
}

// Path is the file's.
func (e *EventFile) Path() string { return e.path }

// Add writes the scalars of one step. Numbers are stored as float32.
func (e *EventFile) Add(step int64, now time.Time, scalars ...Scalar) error {
	return e.record(appendEvent(nil, now, step, "", scalars))
}

// Close closes the file.
func (e *EventFile) Close() error {
	if err := e.out.Close(); err != nil {
		return fmt.Errorf("metrics: close event file %s: %w", e.path, err)
	}
	return nil
}

func (e *EventFile) record(event []byte) error {
	if e.err != nil {
		return e.err
	}
	b := binary.LittleEndian.AppendUint64(e.buf[:0], uint64(len(event)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b))
	b = append(b, event...)
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(event))
	e.buf = b
	if n, err := e.out.Write(b); err != nil {
		err = fmt.Errorf("metrics: event file %s: wrote %d of %d bytes: %w", e.path, n, len(b), err)
		if n > 0 {
			e.err = err
		}
		return err
	}
	return nil
}

// Numbers of the fields.
const (
	eventTime    = 1
	eventStep    = 2
	eventVersion = 3
	eventSummary = 5
	summaryValue = 1
	valueTag     = 1
	valueSimple  = 2
)

func appendEvent(b []byte, now time.Time, step int64, version string, scalars []Scalar) []byte {
	seconds := float64(now.Unix()) + float64(now.Nanosecond())/1e9
	b = protowire.AppendTag(b, eventTime, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(seconds))
	if step != 0 {
		b = protowire.AppendTag(b, eventStep, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(step))
	}
	if version != "" {
		b = protowire.AppendTag(b, eventVersion, protowire.BytesType)
		b = protowire.AppendString(b, version)
	}
	if len(scalars) == 0 {
		return b
	}
	var summary []byte
	for _, s := range scalars {
		var value []byte
		value = protowire.AppendTag(value, valueTag, protowire.BytesType)
		value = protowire.AppendString(value, s.Tag)
		value = protowire.AppendTag(value, valueSimple, protowire.Fixed32Type)
		value = protowire.AppendFixed32(value, math.Float32bits(float32(s.Value)))
		summary = protowire.AppendTag(summary, summaryValue, protowire.BytesType)
		summary = protowire.AppendBytes(summary, value)
	}
	b = protowire.AppendTag(b, eventSummary, protowire.BytesType)
	return protowire.AppendBytes(b, summary)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// An Event is one record of an event file.
type Event struct {
	Time    float64 // seconds since 1970
	Step    int64
	Version string // of the first record
	Scalars []Scalar
}

// maxEvent is the longest record that ReadEvents takes.
const maxEvent = 1 << 20

// ReadEvents reads the scalars of an event file; what else it holds is passed over. A file whose last record is cut off, as
// that of a run that goes on may be, gives the records before with an error that is io.ErrUnexpectedEOF.
func ReadEvents(r io.Reader) ([]Event, error) {
	var events []Event
	var head [12]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			return events, nil
		} else if err != nil {
			return events, fmt.Errorf("metrics: event file: record %d: %w", len(events), err)
		}
		n := binary.LittleEndian.Uint64(head[:8])
		if got := binary.LittleEndian.Uint32(head[8:]); got != maskedCRC(head[:8]) {
			return events, fmt.Errorf("metrics: event file: record %d: its length has checksum %08x, want %08x", len(events), got, maskedCRC(head[:8]))
		}
		if n > maxEvent {
			return events, fmt.Errorf("metrics: event file: record %d has %d bytes, want at most %d", len(events), n, maxEvent)
		}
		body := make([]byte, n+4)
		if _, err := io.ReadFull(r, body); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return events, fmt.Errorf("metrics: event file: record %d: %w", len(events), err)
		}
		if got := binary.LittleEndian.Uint32(body[n:]); got != maskedCRC(body[:n]) {
			return events, fmt.Errorf("metrics: event file: record %d has checksum %08x, want %08x", len(events), got, maskedCRC(body[:n]))
		}
		event, err := parseEvent(body[:n])
		if err != nil {
			return events, fmt.Errorf("metrics: event file: record %d: %w", len(events), err)
		}
		events = append(events, event)
	}
}

func parseEvent(b []byte) (event Event, err error) {
	err = eachField(b, func(f field) error {
		switch {
		case f.number == eventTime && f.kind == protowire.Fixed64Type:
			event.Time = math.Float64frombits(f.bits)
		case f.number == eventStep && f.kind == protowire.VarintType:
			event.Step = int64(f.bits)
		case f.number == eventVersion && f.kind == protowire.BytesType:
			event.Version = string(f.bytes)
		case f.number == eventSummary && f.kind == protowire.BytesType:
			return eachField(f.bytes, func(f field) error {
				if f.number != summaryValue || f.kind != protowire.BytesType {
					return nil
				}
				s, err := parseScalar(f.bytes)
				event.Scalars = append(event.Scalars, s...)
				return err
			})
		}
		return nil
	})
	return event, err
}

// parseScalar returns no scalar if the value is something else, such as a picture.
func parseScalar(b []byte) ([]Scalar, error) {
	var s Scalar
	simple := false
	err := eachField(b, func(f field) error {
		switch {
		case f.number == valueTag && f.kind == protowire.BytesType:
			s.Tag = string(f.bytes)
		case f.number == valueSimple && f.kind == protowire.Fixed32Type:
			s.Value, simple = float64(math.Float32frombits(uint32(f.bits))), true
		}
		return nil
	})
	if !simple {
		return nil, err
	}
	return []Scalar{s}, err
}

// A field is one of a protobuf message: bits of a number, bytes of the rest.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bits   uint64
	bytes  []byte
}

func eachField(b []byte, f func(field) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("protobuf: tag: %w", protowire.ParseError(n))
		}
		rest := b[n:]
		v := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			v.bits, n = protowire.ConsumeVarint(rest)
		case protowire.Fixed64Type:
			v.bits, n = protowire.ConsumeFixed64(rest)
		case protowire.Fixed32Type:
			var x uint32
			x, n = protowire.ConsumeFixed32(rest)
			v.bits = uint64(x)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(rest)
		default:
			n = protowire.ConsumeFieldValue(number, kind, rest)
		}
		if n < 0 {
			return fmt.Errorf("protobuf: field %d: %w", number, protowire.ParseError(n))
		}
		if err := f(v); err != nil {
			return err
		}
		b = rest[n:]
	}
	return nil
}
