//go:build linux && (amd64 || arm64) && !android && !nocuda

package kernels

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

func TestLayoutsTurnAndPad(t *testing.T) {
	everyWay(t, func(b *box, typ Type) {
		for _, s := range images {
			if few(b, typ, s) || s[1] > 2000 {
				continue
			}
			pixels := s[2] * s[3]
			for _, padded := range []int{s[1], (s[1] + 7) / 8 * 8} {
				for _, types := range [][2]Type{{typ, Float32}, {typ, typ}, {Float32, typ}} {
					to, from := types[0], types[1]
					v := random(41, s.all())
					src := b.put(from, v)
					last := b.empty(to, s[0]*pixels*padded)
					b.must(b.ToChannelsLast(0, to, from, s[0], s[1], pixels, padded, last, src))
					want := make([]float64, s[0]*pixels*padded)
					for i, x := range s.last(v) {
						want[i/s[1]*padded+i%s[1]] = x
					}
					near(b.t, fmt.Sprint(s, " last"), to, b.get(to, last, len(want)), want, 0)
					round := b.get(to, last, len(want))
					dense := make([]float64, s.all())
					for i := range dense {
						dense[i] = round[i/s[1]*padded+i%s[1]]
					}
					first := b.empty(from, s.all())
					b.must(b.ToChannelsFirst(0, from, to, s[0], s[1], pixels, padded, first, last))
					near(b.t, fmt.Sprint(s, " first"), from, b.get(from, first, s.all()), s.first(dense), 0)
				}
			}
			b.reset()
		}
	})
}

func TestPixelsAreThoseOfTheDataPipeline(t *testing.T) {
	mean, std := [4]float32{0.4914, 0.4822, 0.4465}, [4]float32{0.247, 0.2435, 0.2616}
	everyWay(t, func(b *box, typ Type) {
		for _, s := range [][5]int{{3, 3, 8, 6, 8}, {2, 1, 5, 5, 1}, {2, 3, 4, 4, 3}, {1, 4, 3, 3, 16}, {4, 3, 32, 32, 8}} { // N, C, H, W, padded
			n, c, h, w, padded := s[0], s[1], s[2], s[3], s[4]
			if h == 32 && b.order != 5 {
				continue
			}
			const stored = 5
			bytes := make([]float64, stored*c*h*w)
			for i := range bytes {
				bytes[i] = float64(i * 37 % 256)
			}
			src := b.put(Uint8, bytes)
			indices, draws := make([]float64, n), make([]float64, n)
			shift := func(i int) (dx, dy int, flip bool) { return i%5 - 2, 2 - i%4, i%2 == 1 }
			for i := range n {
				indices[i] = float64((i + 3) % stored)
				dx, dy, flip := shift(i)
				draws[i] = float64(Draw(dx, dy, flip))
			}
			for _, augmented := range []bool{false, true} {
				p := Pixels{Type: typ, N: n, C: c, H: h, W: w, Padded: padded, Src: src, Images: stored, Mean: mean, Std: std, Dst: b.empty(typ, n*h*w*padded)}
				if augmented {
					p.Indices, p.Draws = b.put(Int32, indices), b.put(Int32, draws)
				}
				b.must(b.Pixels(0, p))
				want := make([]float64, n*h*w*padded)
				for i := range n {
					image, dx, dy, flip := i, 0, 0, false
					if augmented {
						image = int(indices[i])
						dx, dy, flip = shift(i)
					}
					for y := range h {
						for x := range w {
							sx, sy := x, y+dy
							if flip {
								sx = w - 1 - x
							}
							sx += dx
							for k := range c {
								var v float32
								if sy >= 0 && sy < h && sx >= 0 && sx < w {
									v = float32(bytes[((image*c+k)*h+sy)*w+sx])
								}
								d := std[k]
								if d == 0 {
									d = 1
								}
								want[((i*h+y)*w+x)*padded+k] = float64((v/255 - mean[k]) / d)
							}
						}
					}
				}
				near(b.t, fmt.Sprint(s), typ, b.get(typ, p.Dst, len(want)), want, 0)
			}
			b.reset()
		}
	})
}

// tensors are parameters: a stem, a convolution of many channels, a matrix, vectors, a filter
// larger than a tile of channels, one that is padded in filters, too, and one of so many tiles that
// blocks come to several in which threads read what others wrote.
var tensors = []Tensor{{K: 5, C: 3, R: 3, S: 3, PadC: 8}, {K: 3, C: 300, R: 3, S: 3, PadC: 304}, {K: 10, C: 33, R: 1, S: 1}, {K: 1, C: 65, R: 1, S: 1},
	{K: 1, C: 70000, R: 1, S: 1}, {K: 2, C: 50, R: 7, S: 7, PadC: 56}, {K: 3, C: 2, R: 20, S: 30, PadK: 8, PadC: 8}, {K: 1, C: 1, R: 1, S: 1},
	{K: 130, C: 66, R: 3, S: 3, PadC: 72},
	// These go four numbers at a time.
	{K: 7, C: 20, R: 3, S: 3}, {K: 5, C: 264, R: 3, S: 3}, {K: 6, C: 12, R: 1, S: 1, PadK: 16}, {K: 3, C: 4, R: 5, S: 5}, {K: 130, C: 64, R: 3, S: 3}}

func TestTablesPackAndUnpackAllTensors(t *testing.T) {
	everyOrder(t, func(b *box) {
		b.t = t
		list := append([]Tensor{}, tensors...)
		var values [][]float64
		for i := range list {
			e := &list[i]
			e.PadK, e.PadC = max(e.PadK, e.K), max(e.PadC, e.C)
			e.Type = floats[(i+b.order)%3]
			v := random(uint64(50+i), e.K*e.C*e.R*e.S)
			e.RowMajor, e.ChannelLast = b.put(Float32, v), b.empty(e.Type, e.PadK*e.PadC*e.R*e.S)
			values = append(values, v)
		}
		table, err := b.NewTable(0, list)
		b.must(err)
		b.must(b.Pack(0, table))
		factor, found := b.put(Float32, []float64{0.5}), b.put(Int32, []float64{0})
		for i, e := range list {
			area := e.R * e.S
			want := make([]float64, e.PadK*area*e.PadC)
			for j, x := range values[i] {
				k, c, rs := j/(e.C*area), j/area%e.C, j%area
				want[(k*area+rs)*e.PadC+c] = x
			}
			near(t, fmt.Sprintf("packed %+v", e), e.Type, b.get(e.Type, e.ChannelLast, len(want)), want, 0)
			for j, x := range values[i] { // what comes back was rounded
				if e.Type != Float32 {
					values[i][j] = float64(wide(e.Type, narrow(e.Type, float32(x))))
				}
			}
		}
		b.must(b.Unpack(0, table, 4, factor, found))
		for i, e := range list {
			same(t, fmt.Sprintf("unpacked %+v", e), b.get(Float32, e.RowMajor, len(values[i])), mapped(values[i], func(x float64) float64 { return 2 * x }))
		}
		if got := b.get(Int32, found, 1)[0]; got != 0 {
			t.Fatalf("found is %v after finite numbers, want 0", got)
		}
		for _, i := range []int{len(list) - 6, len(list) - 1} {
			e, found := list[i], b.put(Int32, []float64{0})
			size := int(e.Type.Size())
			before := append([]byte{}, b.bytes(e.ChannelLast, size)...)
			b.write(e.ChannelLast, b.bytes(b.put(e.Type, []float64{math.Inf(1)}), size))
			b.must(b.Unpack(0, table, 4, factor, found))
			if got := b.get(Int32, found, 1)[0]; got != 1 {
				t.Fatalf("found is %v after an infinite number of %+v, want 1", got, e)
			}
			b.write(e.ChannelLast, before)
		}
		b.must(b.FreeTable(table))
		if _, err := b.NewTable(0, []Tensor{{K: 1, C: 2, R: 1, S: 1, PadC: 1, RowMajor: 1, ChannelLast: 1}}); err == nil {
			t.Error("a pad below the size gave no error")
		}
	})
}

// rules says what each optimizer does to w, m and v of one element, in float64.
var rules = []struct {
	name string
	step func(u Update, w, g, m, v float64) (float64, float64, float64)
	run  func(b *box, n int64, w, g, m, v, update, skip drv.Ptr) error
}{
	{"sgd", func(u Update, w, g, m, v float64) (float64, float64, float64) { return w - float64(u.Rate)*g, m, v },
		func(b *box, n int64, w, g, m, v, update, skip drv.Ptr) error { return b.SGD(0, n, w, g, update, skip) }},
	{"momentum", func(u Update, w, g, m, v float64) (float64, float64, float64) {
		m = float64(u.Momentum)*m - float64(u.Rate)*g
		return w + m, m, v
	}, func(b *box, n int64, w, g, m, v, update, skip drv.Ptr) error {
		return b.MomentumSGD(0, n, w, g, m, update, skip)
	}},
	{"nesterov", func(u Update, w, g, m, v float64) (float64, float64, float64) {
		m = float64(u.Momentum)*m - float64(u.Rate)*g
		return w + float64(u.Momentum)*m - float64(u.Rate)*g, m, v
	}, func(b *box, n int64, w, g, m, v, update, skip drv.Ptr) error {
		return b.Nesterov(0, n, w, g, m, update, skip)
	}},
	{"adam", func(u Update, w, g, m, v float64) (float64, float64, float64) {
		m = float64(u.Beta1)*m + float64(u.Rest1)*g
		v = float64(u.Beta2)*v + float64(u.Rest2)*g*g
		return float64(u.Keep)*w - float64(u.Rate)*m/(math.Sqrt(v)*float64(u.Root)+float64(u.Epsilon)), m, v
	}, func(b *box, n int64, w, g, m, v, update, skip drv.Ptr) error {
		return b.Adam(0, n, w, g, m, v, update, skip)
	}},
}

func TestOptimizersStepAndSkip(t *testing.T) {
	u := Update{Scale: 0.5, Clip: 0.6, Shrink: 0.9, Rate: 0.1, Decay: 0.01, Momentum: 0.9, Epsilon: 1e-3, Keep: 0.99, Beta1: 0.9, Rest1: 0.1, Beta2: 0.99, Rest2: 0.01, Root: 3}
	for _, r := range rules {
		for _, skew := range []int{0, 4} {
			t.Run(fmt.Sprintf("%s/skew=%d", r.name, skew), func(t *testing.T) {
				everyOrder(t, func(b *box) {
					b.t, b.skew = t, skew
					for _, n := range []int{1, 8, 77, 5000} {
						w, g, m, v := random(61, n), random(62, n), random(63, n), mapped(random(64, n), math.Abs)
						wp, gp, mp, vp := b.put(Float32, w), b.put(Float32, g), b.put(Float32, m), b.put(Float32, v)
						words := u.Words()
						at := b.room(UpdateBytes)
						b.write(at, unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), UpdateBytes))
						skip, go_ := b.put(Int32, []float64{1}), b.put(Int32, []float64{0})
						b.must(r.run(b, int64(n), wp, gp, mp, vp, at, skip))
						same(t, "skipped", b.get(Float32, wp, n), w)
						b.must(r.run(b, int64(n), wp, gp, mp, vp, at, go_))
						for i := range w {
							d := min(max(g[i]*float64(u.Scale), -float64(u.Clip)), float64(u.Clip))*float64(u.Shrink) + float64(u.Decay)*w[i]
							w[i], m[i], v[i] = r.step(u, w[i], d, m[i], v[i])
						}
						near(t, "w", Float32, b.get(Float32, wp, n), w, 8)
						near(t, "m", Float32, b.get(Float32, mp, n), m, 8)
						near(t, "v", Float32, b.get(Float32, vp, n), v, 8)
					}
				})
			})
		}
	}
}
