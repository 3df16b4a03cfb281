package page

import (
	"math"
	"strconv"
)

// digits is how many digits numbers have that are not whole.
const digits = 4

// A Number is a value that may be unknown: NaN, null in JSON.
type Number float64

// MarshalJSON writes whole numbers as they are, and others with digits.
func (x Number) MarshalJSON() ([]byte, error) { return x.append(nil), nil }

// maxWhole is where a float64 begins to have no digit behind the point.
const maxWhole = 1 << 53

func (x Number) append(b []byte) []byte {
	switch v := float64(x); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(b, "null"...)
	case v == math.Trunc(v) && math.Abs(v) < maxWhole:
		return strconv.AppendInt(b, int64(v), 10)
	default:
		return strconv.AppendFloat(b, v, 'g', digits, 64)
	}
}

// Numbers are a column.
type Numbers []Number

// MarshalJSON writes an array.
func (n Numbers) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 2+8*len(n)), '[')
	for i, x := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = x.append(b)
	}
	return append(b, ']'), nil
}
