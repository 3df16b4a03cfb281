package main

import (
	"math"
	"math/rand/v2"

	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// poolShape is one with windows that overlap and hang over the edge.
func poolShape(o *opRun, c int) kernels.Pool {
	p := kernels.Pool{Type: o.t, N: 3, H: 17, W: 14, C: c, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}}
	if o.small {
		p.H, p.W = 6, 5
	}
	return p
}

// windows calls f for each result of a pooling with the positions of its window that lie in x.
func windows(p kernels.Pool, f func(out int, in, element []int)) {
	oh, ow := p.Out()
	var in, element []int
	for n := range p.N {
		for y := range oh {
			for x := range ow {
				for c := range p.C {
					in, element = in[:0], element[:0]
					for r := range p.Kernel[0] {
						for s := range p.Kernel[1] {
							h, w := y*p.Stride[0]-p.Pad[0]+r, x*p.Stride[1]-p.Pad[1]+s
							if h >= 0 && h < p.H && w >= 0 && w < p.W {
								in, element = append(in, ((n*p.H+h)*p.W+w)*p.C+c), append(element, r*p.Kernel[1]+s)
							}
						}
					}
					f(((n*oh+y)*ow+x)*p.C+c, in, element)
				}
			}
		}
	}
}

var imageChecks = []opCheck{
	{"max pooling", floats, func(o *opRun) error {
		for _, c := range []int{5, 16} {
			p := poolShape(o, c)
			oh, ow := p.Out()
			in, out := p.N*p.H*p.W*p.C, p.N*oh*ow*p.C
			x, xp := o.with(in)
			dy, dyp := o.with(out)
			y, choice, dx := o.empty(o.t, out), o.empty(kernels.Uint8, out), o.empty(o.t, in)
			if err := o.set.MaxPool(o.s, p, y, choice, xp); err != nil {
				return err
			}
			if err := o.set.MaxPoolGrad(o.s, p, dx, choice, dyp); err != nil {
				return err
			}
			wantY, wantC, wantD := make([]float64, out), make([]float64, out), make([]float64, in)
			windows(p, func(i int, at, element []int) {
				best := 0
				for k := range at {
					if x[at[k]] > x[at[best]] {
						best = k
					}
				}
				wantY[i], wantC[i] = x[at[best]], float64(element[best])
				wantD[at[best]] += dy[i]
			})
			o.exact("y", o.t, y, wantY)
			o.exact("choice", kernels.Uint8, choice, wantC)
			o.near("gradient", o.t, dx, wantD)
		}
		return nil
	}},
	{"average pooling", floats, func(o *opRun) error {
		for _, exclude := range []bool{false, true} {
			p := poolShape(o, 16)
			p.ExcludePad = exclude
			oh, ow := p.Out()
			in, out := p.N*p.H*p.W*p.C, p.N*oh*ow*p.C
			x, xp := o.with(in)
			dy, dyp := o.with(out)
			y, dx := o.empty(o.t, out), o.empty(o.t, in)
			if err := o.set.AvgPool(o.s, p, y, xp); err != nil {
				return err
			}
			if err := o.set.AvgPoolGrad(o.s, p, dx, dyp); err != nil {
				return err
			}
			wantY, wantD := make([]float64, out), make([]float64, in)
			windows(p, func(i int, at, _ []int) {
				by := float64(p.Kernel[0] * p.Kernel[1])
				if exclude {
					by = float64(len(at))
				}
				for _, k := range at {
					wantY[i] += x[k] / by
					wantD[k] += dy[i] / by
				}
			})
			o.near("y", o.t, y, wantY)
			o.near("gradient", o.t, dx, wantD)
		}
		return nil
	}},
	{"global average pooling", floats, func(o *opRun) error {
		const n, pixels, c = 5, 16, 24
		x, xp := o.with(n * pixels * c)
		dy := o.random(n * c)
		y, dyp, dx := o.empty(kernels.Float32, n*c), o.put(kernels.Float32, dy), o.empty(o.t, n*pixels*c)
		if err := o.set.GlobalAvgPool(o.s, o.t, kernels.Float32, n, pixels, c, y, xp); err != nil {
			return err
		}
		if err := o.set.GlobalAvgPoolGrad(o.s, o.t, kernels.Float32, n, pixels, c, dx, dyp); err != nil {
			return err
		}
		wantY, wantD := make([]float64, n*c), make([]float64, len(x))
		for i, v := range x {
			k := i/(pixels*c)*c + i%c
			wantY[k] += v / pixels
			wantD[i] = dy[k] / pixels
		}
		o.near("y", kernels.Float32, y, wantY)
		o.near("gradient", o.t, dx, wantD)
		return nil
	}},
	{"channels last and first", floats, func(o *opRun) error {
		const n, c, pixels, padded = 3, 5, 77, 8
		x := o.random(n * c * pixels)
		for i := range x { // numbers that every type has
			x[i] = math.Round(x[i]*16) / 16
		}
		xp, last, first := o.put(kernels.Float32, x), o.empty(o.t, n*pixels*padded), o.empty(kernels.Float32, len(x))
		if err := o.set.ToChannelsLast(o.s, o.t, kernels.Float32, n, c, pixels, padded, last, xp); err != nil {
			return err
		}
		if err := o.set.ToChannelsFirst(o.s, kernels.Float32, o.t, n, c, pixels, padded, first, last); err != nil {
			return err
		}
		want := make([]float64, n*pixels*padded)
		for i, v := range x {
			want[(i/(c*pixels)*pixels+i%pixels)*padded+i/pixels%c] = v
		}
		o.exact("last", o.t, last, want)
		o.exact("first", kernels.Float32, first, x)
		return nil
	}},
	{"images from bytes", floats, func(o *opRun) error {
		const n, c, h, w, padded = 4, 3, 9, 8, 8
		rng := rand.New(rand.NewPCG(5, 5))
		src, draws := make([]float64, n*c*h*w), make([]float64, n)
		for i := range src {
			src[i] = float64(rng.IntN(256))
		}
		type draw struct {
			dx, dy int
			flip   bool
		}
		var drawn [n]draw
		for i := range drawn {
			drawn[i] = draw{rng.IntN(9) - 4, rng.IntN(9) - 4, rng.IntN(2) == 1}
			draws[i] = float64(kernels.Draw(drawn[i].dx, drawn[i].dy, drawn[i].flip))
		}
		p := kernels.Pixels{Type: o.t, N: n, C: c, H: h, W: w, Padded: padded, Dst: o.empty(o.t, n*h*w*padded), Src: o.put(kernels.Uint8, src),
			Draws: o.put(kernels.Int32, draws), Mean: [4]float32{0.4, 0.5, 0.6}, Std: [4]float32{0.2, 0.25, 0.3}}
		if err := o.set.Pixels(o.s, p); err != nil {
			return err
		}
		want := make([]float64, n*h*w*padded)
		for i := range want {
			ch, x, y, k := i%padded, i/padded%w, i/padded/w%h, i/padded/w/h
			if ch >= c {
				continue
			}
			d := drawn[k]
			if d.flip {
				x = w - 1 - x
			}
			x, y = x+d.dx, y+d.dy
			v := 0.0
			if x >= 0 && x < w && y >= 0 && y < h {
				v = src[((k*c+ch)*h+y)*w+x] / 255
			}
			want[i] = (v - float64(p.Mean[ch])) / float64(p.Std[ch])
		}
		o.near("images", o.t, p.Dst, want)
		return nil
	}},
}
