package f32

import "unsafe"

func (a *WinogradArgs) dst(i int) []float32 { return unsafe.Slice(a.Dst[i], a.Count) }
func (a *WinogradArgs) src(i int) []float32 { return unsafe.Slice(a.Src[i], a.Count) }

// transform computes left·src·leftᵀ for each channel, left being out×in.
func (a *WinogradArgs) transform(left [][]float32, c int, out [][]float32) {
	for i := range left {
		for j := range left {
			out[i][j] = a.weighted(left[i], left[j], c)
		}
	}
}

// weighted is Σ rows[p]·cols[q]·src[p][q] for a channel.
func (a *WinogradArgs) weighted(rows, cols []float32, c int) float32 {
	in, sum := len(rows), float32(0)
	for p := range in {
		for q := range in {
			if f := rows[p] * cols[q]; f != 0 {
				sum += f * a.src(p*in + q)[c]
			}
		}
	}
	return sum
}

var (
	winogradB = [][]float32{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}
	winogradG = [][]float32{{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}}
	winogradA = [][]float32{{1, 1, 1, 0}, {0, 1, -1, -1}}

	// The matrices of F(3×3, 2×2).
	winogradGradientG = [][]float32{{1, 0}, {1, 1}, {1, -1}, {0, 1}}
	winogradTapsA     = [][]float32{{1, .5, .5, 0}, {0, .5, -.5, 0}, {0, .5, .5, -1}}
)

// The matrices of F(4×4, 3×3) that interpolates at 0, ±3/4, ±3/2 and infinity; see
// gen/winograd4.go.
var winograd4B, winograd4G, winograd4A = winograd4Matrices(3./4, 3./2)

func winograd4Matrices(a, b float32) (matrixB, matrixG, matrixA [][]float32) {
	aa, bb := a*a, b*b
	ga, gb := 1/(2*aa*(aa-bb)), 1/(2*bb*(bb-aa))
	return [][]float32{
			{aa * bb, 0, -aa - bb, 0, 1, 0}, {0, -a * bb, -bb, a, 1, 0}, {0, a * bb, -bb, -a, 1, 0}, {0, -b * aa, -aa, b, 1, 0}, {0, b * aa, -aa, -b, 1, 0}, {0, aa * bb, 0, -aa - bb, 0, 1},
		}, [][]float32{
			{1 / (aa * bb), 0, 0}, {ga, a * ga, aa * ga}, {ga, -a * ga, aa * ga}, {gb, b * gb, bb * gb}, {gb, -b * gb, bb * gb}, {0, 0, 1},
		}, [][]float32{
			{1, 1, 1, 1, 1, 0}, {0, a, -a, b, -b, 0}, {0, aa, aa, bb, bb, 0}, {0, a * aa, -a * aa, b * bb, -b * bb, 1},
		}
}

func winogradPortable(a *WinogradArgs, left [][]float32) {
	n := len(left)
	var rows [6][6]float32
	var slices [6][]float32
	for i := range slices {
		slices[i] = rows[i][:]
	}
	out := slices[:n]
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
