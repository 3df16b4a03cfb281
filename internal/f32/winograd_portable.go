package f32

import "unsafe"

func (a *WinogradArgs) dst(i int) []float32 { return unsafe.Slice(a.Dst[i], a.Count) }
func (a *WinogradArgs) src(i int) []float32 { return unsafe.Slice(a.Src[i], a.Count) }

// transform computes left·src·leftᵀ for each channel, left being out×in.
func (a *WinogradArgs) transform(left [][]float32, c int, out [][]float32) {
	in := len(left[0])
	for i := range left {
		for j := range left {
			v := float32(0)
			for p := range in {
				for q := range in {
					if f := left[i][p] * left[j][q]; f != 0 {
						v += f * a.src(p*in + q)[c]
					}
				}
			}
			out[i][j] = v
		}
	}
}

var (
	winogradB = [][]float32{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}
	winogradG = [][]float32{{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}}
	winogradA = [][]float32{{1, 1, 1, 0}, {0, 1, -1, -1}}
	// Of F(3×3, 2×2).
	winogradGradientG = [][]float32{{1, 0}, {1, 1}, {1, -1}, {0, 1}}
	winogradTapsA     = [][]float32{{1, .5, .5, 0}, {0, .5, -.5, 0}, {0, .5, .5, -1}}
)

func winogradPortable(a *WinogradArgs, left [][]float32) {
	var rows [4][4]float32
	out := [][]float32{rows[0][:], rows[1][:], rows[2][:], rows[3][:]}
	n := len(left)
	for c := range a.Count {
		a.transform(left, c, out)
		for i := range n {
			for j := range n {
				d := a.dst(i*n + j)
				if a.Add != 0 {
					d[c] += out[i][j]
				} else {
					d[c] = out[i][j]
				}
			}
		}
	}
}
