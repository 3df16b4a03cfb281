package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// An Event is one record of an event file.
type Event struct {
	// Time is in seconds since 1970.
	Time float64
	Step int64
	// Version is that of the first record.
	Version string
	// Start says that what earlier files of the folder have from Step on no longer counts.
	Start   bool
	Scalars []Scalar
	Texts   []Text
	Plugins []PluginData
}

// PluginData is what a record keeps for a plugin of TensorBoard other than scalars and texts.
type PluginData struct {
	Tag, Plugin string
	// Content is a protobuf message.
	Content []byte
}

// maxEvent is the longest record that ReadEvents takes.
const maxEvent = 1 << 20

// ReadEvents reads an event file; pictures, histograms and the like are passed over. A file whose
// last record is cut off, as that of a run that goes on may be, gives the records before with an
// error that is io.ErrUnexpectedEOF.
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
		case f.number == eventSession && f.kind == protowire.BytesType:
			return eachField(f.bytes, func(f field) error {
				event.Start = event.Start || f.number == sessionStatus && f.kind == protowire.VarintType && f.bits == sessionStart
				return nil
			})
		case f.number == eventSummary && f.kind == protowire.BytesType:
			return eachField(f.bytes, func(f field) error {
				if f.number != summaryValue || f.kind != protowire.BytesType {
					return nil
				}
				return event.parseValue(f.bytes)
			})
		}
		return nil
	})
	return event, err
}

// parseValue adds nothing if the value is something else, such as a picture.
func (event *Event) parseValue(b []byte) error {
	var tag, text string
	var data PluginData
	var number float64
	var isNumber, isText bool
	err := eachField(b, func(f field) error {
		switch {
		case f.number == valueTag && f.kind == protowire.BytesType:
			tag = string(f.bytes)
		case f.number == valueSimple && f.kind == protowire.Fixed32Type:
			number, isNumber = float64(math.Float32frombits(uint32(f.bits))), true
		case f.number == valueTensor && f.kind == protowire.BytesType:
			return eachField(f.bytes, func(f field) error {
				if f.number == tensorStrings && f.kind == protowire.BytesType {
					text, isText = string(f.bytes), true
				}
				return nil
			})
		case f.number == valueMetadata && f.kind == protowire.BytesType:
			return eachField(f.bytes, data.parseMetadata)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case isNumber:
		event.Scalars = append(event.Scalars, Scalar{tag, number})
	case isText && data.Plugin == textPlugin:
		event.Texts = append(event.Texts, Text{tag, text})
	case data.Plugin != "" && data.Plugin != textPlugin:
		data.Tag = tag
		event.Plugins = append(event.Plugins, data)
	}
	return nil
}

func (p *PluginData) parseMetadata(f field) error {
	if f.number != metadataPlugin || f.kind != protowire.BytesType {
		return nil
	}
	return eachField(f.bytes, func(f field) error {
		switch {
		case f.number == pluginName && f.kind == protowire.BytesType:
			p.Plugin = string(f.bytes)
		case f.number == pluginContent && f.kind == protowire.BytesType:
			p.Content = append([]byte(nil), f.bytes...)
		}
		return nil
	})
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
