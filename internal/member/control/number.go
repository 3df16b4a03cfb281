package control

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Number is a value that may be unknown: NaN, which JSON writes as null. Infinities are written as
// the strings "+Inf" and "-Inf".
type Number float64

// MarshalJSON writes as many digits as the value needs.
func (x Number) MarshalJSON() ([]byte, error) { return x.append(nil), nil }

// append appends the number's JSON.
func (x Number) append(b []byte) []byte {
	v := float64(x)
	switch abs := math.Abs(v); {
	case abs >= 1e-6 && abs < 1e21 || v == 0:
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	case math.IsNaN(v):
		return append(b, "null"...)
	case math.IsInf(v, 1):
		return append(b, `"+Inf"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Inf"`...)
	}
	return strconv.AppendFloat(b, v, 'e', -1, 64)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (x *Number) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "null":
		*x = Number(math.NaN())
	case `"+Inf"`:
		*x = Number(math.Inf(1))
	case `"-Inf"`:
		*x = Number(math.Inf(-1))
	default:
		if len(b) == 0 || b[0] == '"' {
			return fmt.Errorf("control: number %s: want a number, null, \"+Inf\" or \"-Inf\"", b)
		}
		return json.Unmarshal(b, (*float64)(x))
	}
	return nil
}

// Numbers are many, in one piece of JSON: an answer has tens of thousands.
type Numbers []Number

// MarshalJSON writes an array.
func (n Numbers) MarshalJSON() ([]byte, error) { return n.append(make([]byte, 0, 2+12*len(n))), nil }

func (n Numbers) append(b []byte) []byte {
	b = append(b, '[')
	for i, x := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = x.append(b)
	}
	return append(b, ']')
}

// Size is how many bytes the JSON has.
func (n Numbers) Size() int {
	var b [32]byte
	size := 2
	for _, x := range n {
		size += 1 + len(x.append(b[:0]))
	}
	return size
}

// MarshalJSON writes what the fields' tags say.
func (s NodeSeries) MarshalJSON() ([]byte, error) {
	b := strconv.AppendUint([]byte(`{"node":`), s.Node, 10)
	b = append(b, `,"values":[`...)
	for i, values := range s.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = Numbers(values).append(b)
	}
	return append(b, "]}"...), nil
}
