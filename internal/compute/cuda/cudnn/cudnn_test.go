package cudnn

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// A bench is a machine, a fake one but in tests of a GPU, with an open library and a stream.
type bench struct {
	*testing.T
	m      *fake.Machine
	ctx    *drv.Context
	h      *Handle
	s      drv.Stream
	memory *gputest.Memory
}

// newBench opens the library on the first fake GPU. At the test's end nothing of the library may be
// left over. Settings come in pairs of key and value.
func newBench(t *testing.T, settings ...any) *bench {
	t.Helper()
	b := &bench{T: t, m: fake.New(t)}
	b.m.Set("poison", 0xff) // memory that nobody wrote is NaN
	for i := 0; i < len(settings); i += 2 {
		b.m.Set(settings[i].(string), int64(settings[i+1].(int)))
	}
	b.ctx = b.m.Context(0)
	lib, err := b.m.Search().Open(dl.CuDNN)
	if err != nil {
		t.Fatal(err)
	}
	b.do(func() error {
		b.h, err = Open(lib, b.ctx)
		if err == nil {
			b.s, err = b.ctx.NewStream(0)
		}
		return err
	})
	b.memory, err = gputest.NewMemory(b.ctx, b.s)
	gputest.Must(t, err)
	t.Cleanup(func() {
		if gputest.On() && t.Failed() {
			// What a lost GPU holds goes with the process.
			return
		}
		b.do(b.memory.Close)
		b.do(func() error { return b.ctx.DestroyStream(b.s) })
		b.do(b.h.Close)
		if n := b.m.Count("cudnn_descriptors"); n != 0 {
			t.Errorf("%d descriptors were not destroyed", n)
		}
	})
	return b
}

func (b *bench) do(f func() error) {
	b.Helper()
	gputest.Must(b, b.ctx.Do(f))
}

// put makes device memory with these numbers in a type. It goes with the test.
func (b *bench) put(t DType, numbers []float32) drv.Ptr {
	b.Helper()
	return b.bytes(encode(t, numbers))
}

func (b *bench) bytes(data []byte) drv.Ptr {
	b.Helper()
	p := b.room(int64(len(data)))
	gputest.Must(b, b.memory.Write(p, data))
	return p
}

// room is device memory with nothing in it, no better aligned than it must be.
func (b *bench) room(bytes int64) drv.Ptr {
	b.Helper()
	if bytes == 0 {
		return 0
	}
	p, err := b.memory.Room(bytes, convAlignment)
	gputest.Must(b, err)
	return p
}

// raw reads device memory after the stream's work.
func (b *bench) raw(p drv.Ptr, n int64) []byte {
	b.Helper()
	data, err := b.memory.Read(p, n)
	gputest.Must(b, err)
	return data
}

func (b *bench) get(t DType, p drv.Ptr, n int) []float32 {
	b.Helper()
	return decode(t, b.raw(p, int64(n)*t.Size()))
}

// encode and decode are the storage types.
func encode(t DType, numbers []float32) []byte {
	var data []byte
	for _, v := range numbers {
		if t == Float32 {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		} else {
			data = binary.LittleEndian.AppendUint16(data, gputest.Narrow(t == BFloat16, v))
		}
	}
	return data
}

func decode(t DType, data []byte) []float32 {
	var numbers []float32
	for ; len(data) > 0; data = data[t.Size():] {
		if t == Float32 {
			numbers = append(numbers, math.Float32frombits(binary.LittleEndian.Uint32(data)))
		} else {
			numbers = append(numbers, gputest.Wide(t == BFloat16, binary.LittleEndian.Uint16(data)))
		}
	}
	return numbers
}

// random gives numbers of the type between -1 and 1.
func random(r *rand.Rand, t DType, n int) []float32 {
	numbers := make([]float32, n)
	for i := range numbers {
		numbers[i] = 2*r.Float32() - 1
	}
	return decode(t, encode(t, numbers))
}

// near fails the test unless got is want to a relative error of the whole, which leaves out no
// element.
func near(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d numbers, want %d", what, len(got), len(want))
	}
	var scale float64
	for _, w := range want {
		scale = max(scale, math.Abs(float64(w)))
	}
	worst := 0.0
	for i := range got {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if !(d <= tolerance*scale) && !gputest.On() {
			t.Fatalf("%s: element %d: got %v, want %v within %g", what, i, got[i], want[i], tolerance*scale)
		}
		if d != 0 && gputest.Worse(d/(tolerance*scale), worst) {
			worst = d / (tolerance * scale)
		}
	}
	if gputest.On() {
		gputest.Within(t, "", worst, 1, "of rounding", what)
	}
}

// ulp is the relative error of rounding once to a type, with some room for the sums before it.
func ulp(t DType) float64 {
	switch t {
	case BFloat16:
		return 1.0 / 256
	case Float16:
		return 1.0 / 2048
	}
	return 1e-5
}

func engines[P interface{ Engine() string }](plans []P) string {
	var names []string
	for _, p := range plans {
		names = append(names, p.Engine())
	}
	return strings.Join(names, ", ")
}

// shape is a convolution of a type in a short form.
func shape(t DType, n, c, h, w, k, r, s, pad, stride int) Conv {
	return Conv{N: n, C: c, H: h, W: w, K: k, R: r, S: s, Pad: [2]int{pad, pad}, Stride: [2]int{stride, stride}, In: t, Weight: t, Out: t}
}
