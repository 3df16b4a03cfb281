package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/pool"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

func normal(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func (m Mat) at(i, j int) float64 {
	if m.Transposed {
		i, j = j, i
	}
	return float64(m.Data[i*m.Stride+j])
}

func TestGemmIsThePlainProduct(t *testing.T) {
	sizes := [][3]int{{1, 1, 1}, {1, 40, 3}, {5, 1, 9}, {3, 7, 0}, {12, 32, 16}, {13, 33, 17}, {64, 10, 512}, {30, 40, 1100}, {7, 140, 33}, {25, 31, 640}, {2, 1100, 5}, {1, 4200, 2}}
	type runner struct {
		path    Path
		threads int
		g       *Gemm
	}
	var runners []runner
	for _, path := range Available() {
		for _, threads := range []int{1, 3} {
			p := pool.New(threads)
			t.Cleanup(p.Close)
			runners = append(runners, runner{path, threads, newGemm(p, Tiles(path))})
		}
	}
	for seed, s := range sizes {
		for variant := range 8 {
			r := rand.New(rand.NewPCG(uint64(seed), uint64(variant)))
			m, n, k := s[0], s[1], s[2]
			mat := func(rows, cols int, transposed bool) Mat {
				if transposed {
					return mat2(r, cols, rows).T()
				}
				return mat2(r, rows, cols)
			}
			a, b, c := mat(m, k, variant&1 != 0), mat(k, n, variant&2 != 0), mat(m, n, false)
			alpha, beta := float32(1), float32(0)
			if variant&4 != 0 {
				alpha, beta = 0.5, []float32{1, -2}[seed%2]
			}
			want, bound := make([]float64, m*n), make([]float64, m*n)
			for i := range m {
				for j := range n {
					for q := range k {
						v := float64(alpha) * a.at(i, q) * b.at(q, j)
						want[i*n+j] += v
						bound[i*n+j] += math.Abs(v)
					}
					if beta != 0 {
						want[i*n+j] += float64(beta) * c.at(i, j)
						bound[i*n+j] += math.Abs(float64(beta) * c.at(i, j))
					} else {
						c.Data[i*c.Stride+j] = float32(math.NaN())
					}
				}
			}
			old := c.Data
			for _, run := range runners {
				c.Data = append([]float32(nil), old...)
				run.g.Mul(c, alpha, a, b, beta)
				name := fmt.Sprintf("%v, %d threads: %d×%d×%d, a^T %t, b^T %t, alpha %g, beta %g", run.path, run.threads, m, n, k, a.Transposed, b.Transposed, alpha, beta)
				for i := range c.Data {
					row, col := i/c.Stride, i%c.Stride
					if col >= n || row >= m {
						if math.Float32bits(c.Data[i]) != math.Float32bits(old[i]) {
							t.Fatalf("%s: value %d outside of c was overwritten", name, i)
						}
						continue
					}
					if d := math.Abs(float64(c.Data[i]) - want[row*n+col]); !(d <= 2e-6*bound[row*n+col]) {
						t.Fatalf("%s: c[%d,%d] = %g, want %g", name, row, col, c.Data[i], want[row*n+col])
					}
				}
			}
		}
	}
}

// mat2 is a random matrix whose rows are longer than its columns need, but for the last.
func mat2(r *rand.Rand, rows, cols int) Mat {
	stride := cols + 3
	return Mat{Data: normal(r, max(0, (rows-1)*stride+cols)), Rows: rows, Cols: cols, Stride: stride}
}

func TestGemmAllocatesNothingTheSecondTime(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for _, path := range Available() {
		g := newGemm(p, Tiles(path))
		a, b, c := Dense(make([]float32, 30*40), 30, 40), Dense(make([]float32, 40*50), 40, 50), Dense(make([]float32, 30*50), 30, 50)
		g.Mul(c, 1, a, b, 0)
		if n := alloctest.PerRun(10, func() { g.Mul(c, 1, a, b, 0) }); n != 0 {
			t.Errorf("%v: Mul allocates %v times, want 0", path, n)
		}
	}
}

func TestGemmRefusesSizesThatDoNotFit(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	g := NewGemm(p)
	v := make([]float32, 12)
	for name, f := range map[string]func(){
		"inner sizes":  func() { g.Mul(Dense(v, 3, 3), 1, Dense(v, 3, 4), Dense(v, 3, 3), 0) },
		"short data":   func() { g.Mul(Dense(v, 3, 3), 1, Dense(v, 3, 5), Dense(v, 5, 3), 0) },
		"transposed c": func() { g.Mul(Dense(v, 3, 3).T(), 1, Dense(v, 3, 4), Dense(v, 4, 3), 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: Mul returned, want a panic", name)
				}
			}()
			f()
		}()
	}
}

// go test -run xxx -bench Gemm ./internal/compute/f32/
func BenchmarkGemm(b *testing.B) {
	p := pool.New(1)
	defer p.Close()
	g := NewGemm(p)
	for _, s := range [][3]int{{256, 256, 256}, {1024, 1024, 1024}, {2000, 2000, 2000}, {128, 512, 784}, {128, 512, 512}, {128, 10, 512}} {
		for variant, name := range []string{"nn", "tn", "nt"} {
			m, n, k := s[0], s[1], s[2]
			r := rand.New(rand.NewPCG(1, 2))
			x, y, c := Dense(normal(r, m*k), m, k), Dense(normal(r, k*n), k, n), Dense(normal(r, m*n), m, n)
			if variant == 1 {
				x = Dense(x.Data, k, m).T()
			}
			if variant == 2 {
				y = Dense(y.Data, n, k).T()
			}
			b.Run(fmt.Sprintf("size=%dx%dx%d/op=%s", m, n, k, name), func(b *testing.B) {
				best := time.Hour
				for b.Loop() {
					start := time.Now()
					g.Mul(c, 1, x, y, 0)
					best = min(best, time.Since(start))
				}
				rate := 2 * float64(m) * float64(n) * float64(k) / best.Seconds()
				b.ReportMetric(rate/1e9, "best-GFLOP/s")
				if peak := MeasurePeak(active, 5*time.Millisecond); peak > 0 {
					b.ReportMetric(rate/peak, "of-peak")
				}
			})
		}
	}
}
