package tfrecord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of tf.train.Example, by the numbers of their fields:
//
//	Example    features 1: Features
//	Features   feature 1: map of string to Feature (an entry: key 1, value 2)
//	Feature    one of bytes_list 1, float_list 2, int64_list 3
//	each list  value 1, repeated; numbers packed or not

// A feature is a list of one kind. The bytes are those of the message.
type feature struct {
	// kind is 1 for bytes, 2 for floats, 3 for integers; 0: the feature is empty.
	kind protowire.Number

	// list has the messages of the list. If there are more than one, they follow one after the
	// other.
	list [][]byte
}

var errWire = errors.New("the record is no tf.train.Example")

// fields calls found for each field of a message; value is what a length-delimited field holds,
// without its length.
func fields(message []byte, found func(number protowire.Number, kind protowire.Type, value []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(n))
		}
		message = message[n:]
		n = protowire.ConsumeFieldValue(number, kind, message)
		if n < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(n))
		}
		value := message[:n]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if err := found(number, kind, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// features calls found for each feature of an example.
func features(example []byte, found func(key string, f feature)) error {
	return fields(example, func(number protowire.Number, kind protowire.Type, value []byte) error {
		if number != 1 || kind != protowire.BytesType {
			return nil
		}
		return fields(value, func(number protowire.Number, kind protowire.Type, entry []byte) error {
			if number != 1 || kind != protowire.BytesType {
				return nil
			}
			key, f, err := parseEntry(entry)
			if err == nil {
				found(key, f)
			}
			return err
		})
	})
}

// parseEntry reads a feature and its name.
func parseEntry(entry []byte) (key string, f feature, err error) {
	err = fields(entry, func(number protowire.Number, kind protowire.Type, value []byte) error {
		switch {
		case kind != protowire.BytesType:
		case number == 1:
			key = string(value)
		case number == 2:
			return f.addLists(value)
		}
		return nil
	})
	return key, f, err
}

// addLists adds the lists of a message. The kind is that of the last one, and lists of other kinds
// before it are dropped.
func (f *feature) addLists(message []byte) error {
	return fields(message, func(number protowire.Number, kind protowire.Type, list []byte) error {
		if kind != protowire.BytesType || number < 1 || number > 3 {
			return nil
		}
		if number != f.kind {
			*f = feature{kind: number}
		}
		f.list = append(f.list, list)
		return nil
	})
}

// maxLabels bounds how many numbers one label has.
const maxLabels = 1 << 16

// oneBytes returns the only value of a list of bytes.
func (f feature) oneBytes() (value []byte, err error) {
	if f.kind != 1 {
		return nil, fmt.Errorf("got %v, want bytes", f)
	}
	count := 0
	for _, list := range f.list {
		if err := fields(list, func(number protowire.Number, kind protowire.Type, v []byte) error {
			if number == 1 && kind == protowire.BytesType {
				value = v
				count++
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	if count != 1 {
		return nil, fmt.Errorf("got %d values, want one", count)
	}
	return value, nil
}

// numbers returns the values of a list of integers or floats; bytes are the digits of an integer.
func (f feature) numbers() ([]float32, error) {
	var values labelValues
	if f.kind == 1 {
		text, err := f.oneBytes()
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text[:min(len(text), 64)])), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("got bytes %.40q, want a number", text)
		}
		if err := values.add(float64(n)); err != nil {
			return nil, err
		}
		return values, nil
	}
	for _, list := range f.list {
		if err := fields(list, func(number protowire.Number, kind protowire.Type, v []byte) error {
			switch {
			case number != 1:
				return nil
			case f.kind == 2 && (kind == protowire.Fixed32Type || kind == protowire.BytesType):
				return values.addFloats(v)
			case f.kind == 3 && (kind == protowire.VarintType || kind == protowire.BytesType):
				return values.addIntegers(v)
			}
			return fmt.Errorf("%w: a value of wire type %d in a list of %v", errWire, kind, f)
		}); err != nil {
			return nil, err
		}
	}
	if len(values) == 0 {
		return nil, errors.New("got no values, want a number")
	}
	return values, nil
}

// labelValues are the numbers of one label.
type labelValues []float32

// add adds a number that float32 holds as it is, if it is whole.
func (l *labelValues) add(v float64) error {
	if len(*l) == maxLabels {
		return fmt.Errorf("got more than %d numbers", maxLabels)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("got %v, want a number", v)
	}
	if v == math.Trunc(v) && math.Abs(v) > 1<<24 {
		return fmt.Errorf("got %v, want whole numbers to 16777216", v)
	}
	*l = append(*l, float32(v))
	return nil
}

func (l *labelValues) addFloats(b []byte) error {
	if len(b)%4 != 0 {
		return fmt.Errorf("%w: floats of %d bytes", errWire, len(b))
	}
	for ; len(b) > 0; b = b[4:] {
		if err := l.add(float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))); err != nil {
			return err
		}
	}
	return nil
}

func (l *labelValues) addIntegers(b []byte) error {
	for len(b) > 0 {
		n, used := protowire.ConsumeVarint(b)
		if used < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(used))
		}
		b = b[used:]
		if err := l.add(float64(int64(n))); err != nil {
			return err
		}
	}
	return nil
}

// String names the kind of a feature.
func (f feature) String() string {
	switch f.kind {
	case 1:
		return "bytes"
	case 2:
		return "floats"
	case 3:
		return "integers"
	}
	return "an empty feature"
}
