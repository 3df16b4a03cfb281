package buffer

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

// The path of machines with another byte order gives the same bytes and values, so that it can be
// tested on any.
func TestBytesDoNotDependOnTheMachine(t *testing.T) {
	if !LittleEndian {
		t.Skip("this machine is big-endian: there is no other path to compare with")
	}
	values := []float32{1, -2.5, float32(math.Inf(1)), 1e-40, 3.1415927}
	var a, b Aligned
	if x, y := a.Floats(true, values), b.Floats(false, values); !bytes.Equal(x, y) {
		t.Errorf("floats: got %x, want %x", y, x)
	}
	back := make([]float32, len(values))
	in := b.Receive(false, back)
	copy(in, BytesOf(values))
	DecodeFloats(false, back, in)
	if !slices.Equal(back, values) {
		t.Errorf("decoded floats: got %v, want %v", back, values)
	}
	rows := []int64{0, 1 << 40, 7}
	if x, y := a.RowNumbers(true, rows), b.RowNumbers(false, rows); !bytes.Equal(x, y) {
		t.Errorf("row numbers: got %x, want %x", y, x)
	}
	code := []byte{1, 2, 3, 4}
	SwapHalves(false, code)
	if !bytes.Equal(code, []byte{2, 1, 4, 3}) {
		t.Errorf("swapped halves: got %x", code)
	}
}
