package f32

import (
	"fmt"
	"slices"
	"testing"
)

func TestSumToAndMeanTo(t *testing.T) {
	divisors := []float32{1, 2, 3, 192}
	onPaths(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 31, 32, 64, 65, 300, 1024, 2500} {
			for numSrcs := 1; numSrcs <= 5; numSrcs++ {
				for numDsts := range 5 {
					for _, skip := range []int{0, 0, 3, 16} {
						dsts, srcs := make([][]float32, numDsts), make([][]float32, numSrcs)
						want := make([]float32, n)
						for i := range srcs {
							srcs[i] = make([]float32, n+1)[1:] // not aligned
							for k := range srcs[i] {
								srcs[i][k] = float32(k*(i+1)%17)*0.1 + 1e3*float32(i)
								if i == 0 {
									want[k] = srcs[i][k]
								} else {
									want[k] += srcs[i][k]
								}
							}
						}
						memory := make([][]float32, numDsts)
						for i := range dsts {
							memory[i] = make([]float32, n+64)
							dsts[i] = memory[i][skip : skip+n]
						}

						// The sum so far is the first source.
						if numDsts > 0 && skip == 16 {
							copy(dsts[0], srcs[0])
							srcs[0] = dsts[0]
						}

						// Others are wanted where they come from.
						if numDsts > 2 && skip != 3 {
							copy(dsts[2], srcs[numSrcs-1])
							if numSrcs > 1 {
								srcs[numSrcs-1] = dsts[2]
							}
						}
						if by := divisors[(n+numSrcs+numDsts+skip)%len(divisors)]; by == 1 {
							SumTo(dsts, srcs)
						} else {
							MeanTo(dsts, srcs, by)
							dividePortable(want, by, want)
						}
						for i, dst := range dsts {
							if !slices.Equal(dst, want) {
								t.Fatalf("%d sources of %d values, destination %d of %d at %d: got other values than value by value", numSrcs, n, i, numDsts, skip)
							}
							if slices.ContainsFunc(memory[i][:skip], notZero) || slices.ContainsFunc(memory[i][skip+n:], notZero) {
								t.Fatalf("%d values: memory beside destination %d was written to", n, i)
							}
						}
					}
				}
			}
		}
	})
}

func notZero(x float32) bool { return x != 0 }

func BenchmarkSumTo(b *testing.B) {
	const n = 1 << 22
	for _, count := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 3}, {4, 5}} {
		srcs, dsts := make([][]float32, count[0]), make([][]float32, count[1])
		for _, list := range [][][]float32{srcs, dsts} {
			for i := range list {
				list[i] = make([]float32, n)
			}
		}
		b.Run(fmt.Sprintf("srcs=%d/dsts=%d", count[0], count[1]), func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				SumTo(dsts, srcs)
			}
		})
	}
}
