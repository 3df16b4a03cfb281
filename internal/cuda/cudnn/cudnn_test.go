package cudnn

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/cuda/dl"
	"github.com/paragon-train/paragon/internal/cuda/drv"
	"github.com/paragon-train/paragon/internal/cuda/fake"
)

// A bench is a fake machine with an open library and a stream.
type bench struct {
	*testing.T
	m   *fake.Machine
	ctx *drv.Context
	h   *Handle
	s   drv.Stream
}

// newBench opens the library on the first fake GPU. At the test's end nothing of the library may be left over. Settings come in
// pairs of key and value.
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
	t.Cleanup(func() {
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
	if err := b.ctx.Do(f); err != nil {
		b.Fatal(err)
	}
}

// put makes device memory with these numbers in a type. It goes with the test.
func (b *bench) put(t DType, numbers []float32) drv.Ptr {
	b.Helper()
	return b.bytes(encode(t, numbers))
}

func (b *bench) bytes(data []byte) drv.Ptr {
	b.Helper()
	p := b.room(int64(len(data)))
	b.do(func() error {
		host, err := b.ctx.HostAlloc(int64(len(data)))
		if err != nil {
			return err
		}
		copy(host, data)
		if err := b.ctx.CopyToDevice(p, unsafe.Pointer(&host[0]), int64(len(data)), b.s); err != nil {
			return err
		}
		if err := b.ctx.Synchronize(b.s); err != nil {
			return err
		}
		return b.ctx.HostFree(host)
	})
	return p
}

// room is device memory with nothing in it, no better aligned than it must be.
func (b *bench) room(bytes int64) drv.Ptr {
	b.Helper()
	if bytes == 0 {
		return 0
	}
	var p drv.Ptr
	b.do(func() (err error) { p, err = b.ctx.Malloc(bytes + convAlignment); return })
	b.Cleanup(func() { b.do(func() error { return b.ctx.Free(p) }) })
	return p + convAlignment
}

// raw reads device memory after the stream's work.
func (b *bench) raw(p drv.Ptr, n int64) []byte {
	b.Helper()
	var data []byte
	b.do(func() error {
		host, err := b.ctx.HostAlloc(n)
		if err != nil {
			return err
		}
		if err := b.ctx.CopyToHost(unsafe.Pointer(&host[0]), p, n, b.s); err != nil {
			return err
		}
		if err := b.ctx.Synchronize(b.s); err != nil {
			return err
		}
		data = append(data, host...)
		return b.ctx.HostFree(host)
	})
	return data
}

func (b *bench) get(t DType, p drv.Ptr, n int) []float32 {
	b.Helper()
	return decode(t, b.raw(p, int64(n)*t.Size()))
}

// encode and decode are the storage types, written down once more in Go.
func encode(t DType, numbers []float32) []byte {
	var data []byte
	for _, v := range numbers {
		bits := math.Float32bits(v)
		switch t {
		case Float32:
			data = append(data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
			continue
		case BFloat16:
			bits = (bits + 0x7fff + bits>>16&1) >> 16
		case Float16:
			bits = uint32(toHalf(v))
		}
		data = append(data, byte(bits), byte(bits>>8))
	}
	return data
}

func decode(t DType, data []byte) []float32 {
	var numbers []float32
	for i := 0; i < len(data); i += int(t.Size()) {
		bits := uint32(data[i]) | uint32(data[i+1])<<8
		switch t {
		case Float32:
			bits |= uint32(data[i+2])<<16 | uint32(data[i+3])<<24
		case BFloat16:
			bits <<= 16
		case Float16:
			sign := float64(1)
			if bits&0x8000 != 0 {
				sign = -1
			}
			e, m := bits>>10&31, bits&1023
			v := math.Ldexp(float64(m), -24)
			if e == 31 {
				v = math.NaN()
			} else if e > 0 {
				v = math.Ldexp(float64(m+1024), int(e)-25)
			}
			numbers = append(numbers, float32(sign*v))
			continue
		}
		numbers = append(numbers, math.Float32frombits(bits))
	}
	return numbers
}

// toHalf rounds a number of moderate size to float16, to nearest even.
func toHalf(v float32) uint16 {
	var sign uint16
	a := float64(v)
	if a < 0 {
		sign, a = 0x8000, -a
	}
	if a < math.Ldexp(1, -14) {
		return sign | uint16(math.RoundToEven(math.Ldexp(a, 24)))
	}
	_, e := math.Frexp(a)
	m := math.RoundToEven(math.Ldexp(a, 11-e))
	return sign | uint16(e+14)<<10 + uint16(m) - 1024
}

// random gives numbers of the type between -1 and 1.
func random(r *rand.Rand, t DType, n int) []float32 {
	numbers := make([]float32, n)
	for i := range numbers {
		numbers[i] = 2*r.Float32() - 1
	}
	return decode(t, encode(t, numbers))
}

// near fails the test unless got is want to a relative error of the whole, which leaves out no element.
func near(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d numbers, want %d", what, len(got), len(want))
	}
	var scale float64
	for _, w := range want {
		scale = max(scale, math.Abs(float64(w)))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= tolerance*scale) {
			t.Fatalf("%s: element %d: got %v, want %v within %g", what, i, got[i], want[i], tolerance*scale)
		}
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
