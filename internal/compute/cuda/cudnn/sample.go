package cudnn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A sample knows some elements of a convolution's result. Its operands repeat a table of numbers,
// so that any element of them is known without reading them back: an engine that gives wrong
// numbers is found out for the price of some loops on the host.
type sample struct {
	op Op
	c  Conv

	// table has numerators, over 32: each type stores them as they are.
	table []int8

	at   []int64   // elements of the result
	want []float64 // what they are
	host []byte    // pinned, for what is copied

	// scale is the root of the sum of the squares of what is added up: the size that rounding
	// errors are measured by.
	scale []float64
}

const (
	// tablePeriod is in elements. It is a multiple of an image's row only by chance, and pieces
	// stay aligned to 16 bytes.
	tablePeriod = 8 * 4093

	// sampleProduct is how many products are computed for one sample at most.
	sampleProduct = 1 << 22

	mostSampled  = 48
	leastSampled = 4
)

// tableShift is where an operand begins in the table: x, w, y.
var tableShift = [3]int64{0, 8 * 1021, 8 * 2503}

// newSample computes the elements that are looked at: the first, the last, and some drawn ones,
// always the same.
func newSample(op Op, c Conv) *sample {
	s := &sample{op: op, c: c, table: make([]int8, tablePeriod)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range s.table {
		s.table[i] = int8(r.IntN(64) - 32)
	}
	p, q := c.OutSize()
	var size, products int64
	switch op {
	case Forward:
		size, products = int64(c.N)*int64(p)*int64(q)*int64(c.K), int64(c.R)*int64(c.S)*int64(c.C)
	case BackwardData:
		size, products = int64(c.N)*int64(c.H)*int64(c.W)*int64(c.C), int64(c.R)*int64(c.S)*int64(c.K)
	default:
		size, products = int64(c.K)*int64(c.R)*int64(c.S)*int64(c.C), int64(c.N)*int64(p)*int64(q)
	}
	n := min(max(sampleProduct/products, leastSampled), mostSampled, size)
	for i := range n {
		at := r.Int64N(size)
		switch i {
		case 0:
			at = 0
		case 1:
			at = size - 1
		}
		want, square := s.element(at)
		if c.Accumulate {
			want += s.operand(s.result(), at)
		}
		s.at, s.want, s.scale = append(s.at, at), append(s.want, want), append(s.scale, math.Sqrt(square))
	}
	return s
}

// result is which operand the pass writes: x, w or y.
func (s *sample) result() int { return [...]int{Forward: 2, BackwardData: 0, BackwardWeight: 1}[s.op] }

// operand is an element of x, w or y.
func (s *sample) operand(which int, i int64) float64 {
	return float64(s.table[(i+tableShift[which])%tablePeriod]) / 32
}

// element is one element of the result, and the sum of the squares of its products.
func (s *sample) element(at int64) (sum, square float64) {
	t := terms{sample: s}
	t.p, t.q = s.c.OutSize()
	switch s.op {
	case Forward:
		t.addForward(at)
	case BackwardData:
		t.addBackwardData(at)
	default:
		t.addBackwardWeight(at)
	}
	return t.sum, t.square
}

// A terms adds up the products of one element of a result.
type terms struct {
	sample *sample

	// p and q are the height and width of the output.
	p, q int

	sum, square float64
}

func (t *terms) add(a, b float64) {
	t.sum += a * b
	t.square += a * a * b * b
}

// x, w and y are elements of the operands.
func (t *terms) x(n, h, w, ch int) float64 {
	c := t.sample.c
	return t.sample.operand(0, ((int64(n)*int64(c.H)+int64(h))*int64(c.W)+int64(w))*int64(c.C)+int64(ch))
}

func (t *terms) w(k, r, s, ch int) float64 {
	c := t.sample.c
	return t.sample.operand(1, ((int64(k)*int64(c.R)+int64(r))*int64(c.S)+int64(s))*int64(c.C)+int64(ch))
}

func (t *terms) y(n, i, j, k int) float64 {
	return t.sample.operand(2, ((int64(n)*int64(t.p)+int64(i))*int64(t.q)+int64(j))*int64(t.sample.c.K)+int64(k))
}

// split takes an element's place apart; the last extent is that of the channels.
func split(at int64, b, d, e int) (int, int, int, int) {
	return int(at / int64(e) / int64(d) / int64(b)), int(at / int64(e) / int64(d) % int64(b)), int(at / int64(e) % int64(d)), int(at % int64(e))
}

func (t *terms) addForward(at int64) {
	c := t.sample.c
	n, i, j, k := split(at, t.p, t.q, c.K)
	for r := range c.R {
		for s := range c.S {
			h, v := i*c.Stride[0]-c.Pad[0]+r, j*c.Stride[1]-c.Pad[1]+s
			if h < 0 || h >= c.H || v < 0 || v >= c.W {
				continue
			}
			for ch := range c.C {
				t.add(t.x(n, h, v, ch), t.w(k, r, s, ch))
			}
		}
	}
}

func (t *terms) addBackwardData(at int64) {
	c := t.sample.c
	n, h, v, ch := split(at, c.H, c.W, c.C)
	for r := range c.R {
		for s := range c.S {
			i, j := h+c.Pad[0]-r, v+c.Pad[1]-s
			if i < 0 || j < 0 || i%c.Stride[0] != 0 || j%c.Stride[1] != 0 || i/c.Stride[0] >= t.p || j/c.Stride[1] >= t.q {
				continue
			}
			for k := range c.K {
				t.add(t.w(k, r, s, ch), t.y(n, i/c.Stride[0], j/c.Stride[1], k))
			}
		}
	}
}

func (t *terms) addBackwardWeight(at int64) {
	c := t.sample.c
	k, r, s, ch := split(at, c.R, c.S, c.C)
	for n := range c.N {
		for i := range t.p {
			h := i*c.Stride[0] - c.Pad[0] + r
			if h < 0 || h >= c.H {
				continue
			}
			for j := range t.q {
				if v := j*c.Stride[1] - c.Pad[1] + s; v >= 0 && v < c.W {
					t.add(t.x(n, h, v, ch), t.y(n, i, j, k))
				}
			}
		}
	}
}

// types and counts are those of x, w and y.
func (s *sample) types(c Conv) [3]DType { return [3]DType{c.In, c.Weight, c.Out} }

func (s *sample) counts() [3]int64 {
	c := s.c
	x, w, y := c.sizes()
	return [3]int64{x / c.In.Size(), w / c.Weight.Size(), y / c.Out.Size()}
}

// open takes pinned memory, close gives it back: to pin some costs more than what it is used for.
func (s *sample) open(ctx *drv.Context) (err error) {
	s.host, err = ctx.HostAlloc(tablePeriod * 4)
	return err
}

func (s *sample) close(ctx *drv.Context) error {
	if s.host == nil {
		return nil
	}
	return ctx.HostFree(s.host)
}

// fill writes an operand to device memory, in a type.
func (s *sample) fill(ctx *drv.Context, stream drv.Stream, which int, t DType, to drv.Ptr) error {
	n, host := s.counts()[which], s.host
	first := min(n, tablePeriod)
	for i := range first {
		store(t, host[i*t.Size():], float32(s.operand(which, i)))
	}
	if err := ctx.CopyToDevice(to, unsafe.Pointer(&host[0]), first*t.Size(), stream); err != nil {
		return err
	}
	for done := first; done < n; {
		piece := min(done/tablePeriod*tablePeriod, n-done)
		if err := ctx.CopyOnDevice(to+drv.Ptr(done*t.Size()), to, piece*t.Size(), stream); err != nil {
			return err
		}
		done += piece
	}

	// The host's memory is used again after this.
	return ctx.Synchronize(stream)
}

// prepare makes the result's memory what it is before a run that is looked at: what is added to, or
// NaN.
func (s *sample) prepare(ctx *drv.Context, stream drv.Stream, c Conv, memory []drv.Ptr) error {
	which := s.result()
	t := s.types(c)[which]
	if c.Accumulate {
		return s.fill(ctx, stream, which, t, memory[which])
	}
	return ctx.Memset8(memory[which], 0xff, s.counts()[which]*t.Size(), stream)
}

// check reads the elements back after a run and compares. A wrong one is an error that is ErrWrong.
func (s *sample) check(ctx *drv.Context, stream drv.Stream, c Conv, memory []drv.Ptr) error {
	which, host := s.result(), s.host
	t := s.types(c)[which]
	for i, at := range s.at {
		if err := ctx.CopyToHost(unsafe.Pointer(&host[i*16]), memory[which]+drv.Ptr(at*t.Size()), t.Size(), stream); err != nil {
			return err
		}
	}
	if err := ctx.Synchronize(stream); err != nil {
		return err
	}
	// 16 bits, with what Winograd's way loses; float32, with tf32's products.
	part := 1.0 / 16
	if c.In == Float32 {
		part = 1.0 / 128
	}
	for i, at := range s.at {
		got := float64(load(t, host[i*16:]))
		limit := part*s.scale[i] + math.Abs(s.want[i])/64 + 1.0/1024
		if !(math.Abs(got-s.want[i]) <= limit) {
			return fmt.Errorf("element %d of the result: got %g, want %g to %g: %w", at, got, s.want[i], limit, ErrWrong)
		}
	}
	return nil
}

// store writes a number that the type holds exactly, of moderate size or 0.
func store(t DType, to []byte, v float32) {
	bits := math.Float32bits(v)
	switch t {
	case Float32:
		to[0], to[1], to[2], to[3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
		return
	case BFloat16:
		bits >>= 16
	case Float16:
		if v != 0 {
			// The exponent's offset is 15 in place of 127.
			bits = bits>>16&0x8000 | (bits>>13&0x3ffff - 112<<10)
		}
	}
	to[0], to[1] = byte(bits), byte(bits>>8)
}

// load reads a number.
func load(t DType, from []byte) float32 {
	bits := uint32(from[0]) | uint32(from[1])<<8
	switch t {
	case Float32:
		return math.Float32frombits(bits | uint32(from[2])<<16 | uint32(from[3])<<24)
	case BFloat16:
		return math.Float32frombits(bits << 16)
	}
	sign, e, m := bits>>15<<31, bits>>10&31, bits&1023
	switch e {
	case 0:
		v := float32(math.Ldexp(float64(m), -24))
		return math.Float32frombits(sign | math.Float32bits(v))
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | m<<13)
	}
	return math.Float32frombits(sign | (e+112)<<23 | m<<13)
}
