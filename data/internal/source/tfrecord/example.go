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
			key, f := "", feature{}
			if err := fields(entry, func(number protowire.Number, kind protowire.Type, value []byte) error {
				switch {
				case kind != protowire.BytesType:
				case number == 1:
					key = string(value)
				case number == 2:
					return fields(value, func(number protowire.Number, kind protowire.Type, list []byte) error {
						if kind != protowire.BytesType || number < 1 || number > 3 {
							return nil
						}
						if number != f.kind {
							f = feature{kind: number}
						}
						f.list = append(f.list, list)
						return nil
					})
				}
				return nil
			}); err != nil {
				return err
			}
			found(key, f)
			return nil
		})
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
func (f feature) numbers() (values []float32, err error) {
	add := func(v float64) error {
		if len(values) == maxLabels {
			return fmt.Errorf("got more than %d numbers", maxLabels)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("got %v, want a number", v)
		}
		if v == math.Trunc(v) && math.Abs(v) > 1<<24 {
			return fmt.Errorf("got %v, want whole numbers to 16777216", v)
		}
		values = append(values, float32(v))
		return nil
	}
	if f.kind == 1 {
		text, err := f.oneBytes()
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text[:min(len(text), 64)])), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("got bytes %.40q, want a number", text)
		}
		if err := add(float64(n)); err != nil {
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
				if len(v)%4 != 0 {
					return fmt.Errorf("%w: floats of %d bytes", errWire, len(v))
				}
				for ; len(v) > 0; v = v[4:] {
					if err := add(float64(math.Float32frombits(binary.LittleEndian.Uint32(v)))); err != nil {
						return err
					}
				}
				return nil
			case f.kind == 3 && (kind == protowire.VarintType || kind == protowire.BytesType):
				for len(v) > 0 {
					n, used := protowire.ConsumeVarint(v)
					if used < 0 {
						return fmt.Errorf("%w: %w", errWire, protowire.ParseError(used))
					}
					v = v[used:]
					if err := add(float64(int64(n))); err != nil {
						return err
					}
				}
				return nil
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
