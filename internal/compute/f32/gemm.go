package f32

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/pool"
)

// A Mat is a matrix in row-major order, or the transpose of one: element (i, j) lies at
// Data[i·Stride+j], or at Data[j·Stride+i] if Transposed. Rows and Cols are those of the matrix
// meant, after transposing.
type Mat struct {
	Data       []float32
	Rows, Cols int
	Stride     int
	Transposed bool
}

// Dense is the rows×cols matrix whose rows follow each other in data.
func Dense(data []float32, rows, cols int) Mat {
	return Mat{Data: data, Rows: rows, Cols: cols, Stride: cols}
}

// T is the transpose of m, in the same memory.
func (m Mat) T() Mat {
	m.Rows, m.Cols, m.Transposed = m.Cols, m.Rows, !m.Transposed
	return m
}

func (m Mat) check(name string) {
	rows, cols := m.Rows, m.Cols
	if m.Transposed {
		rows, cols = cols, rows
	}
	if rows < 0 || cols < 0 || m.Stride < cols || rows > 0 && cols > 0 && len(m.Data) < (rows-1)*m.Stride+cols {
		panic(fmt.Sprintf("f32: Gemm.Mul: %s: %d values are no %d×%d matrix of stride %d", name, len(m.Data), rows, cols, m.Stride))
	}
}

const (
	// gemmDepth is the rows of a packed panel: those of a reduction done in one go.
	gemmDepth = 512

	// gemmPanels is how many packed panels stay in the second-level cache.
	gemmPanels = 8

	// gemmWidth bounds the packed panels, and with them the scratch memory.
	gemmWidth = 128
)

// A Gemm multiplies matrices on the threads of a pool. Its scratch memory grows to the largest
// product seen and is kept, so that products of the same sizes allocate nothing. One Mul at a time.
type Gemm struct {
	pool    *pool.Pool
	tile    *Tile
	scratch []float32

	// The part of a product under way: c += or = a·b for some rows of b and some of its
	// columns.
	a, b, c     Mat
	alpha, beta float32

	// first says that this is the first part of the reduction: beta applies.
	first bool

	k0, depth      int // rows of b
	j0, cols       int // columns of b
	panels, groups int
	chunks         int

	// packedA has rows of a^T's part, row after row. It is empty if a is read in place.
	packedA []float32

	packedB  []float32
	packTask func(i int)
	tileTask func(i int)
}

// NewGemm returns a Gemm that runs on p.
func NewGemm(p *pool.Pool) *Gemm { return newGemm(p, Tiles(active)) }

func newGemm(p *pool.Pool, t *Tile) *Gemm {
	g := &Gemm{pool: p, tile: t}
	g.packTask, g.tileTask = g.pack, g.multiply
	return g
}

// Mul sets c = alpha·a·b + beta·c. c must not be transposed nor share memory with a or b. If beta
// is 0, c's old values do not matter, not even NaN.
func (g *Gemm) Mul(c Mat, alpha float32, a, b Mat, beta float32) {
	a.check("a")
	b.check("b")
	c.check("c")
	if a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows || c.Transposed {
		panic(fmt.Sprintf("f32: Gemm.Mul: c %d×%d (transposed %t) = a %d×%d · b %d×%d", c.Rows, c.Cols, c.Transposed, a.Rows, a.Cols, b.Rows, b.Cols))
	}
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	g.a, g.b, g.c, g.alpha, g.beta = a, b, c, alpha, beta
	parts := max(1, (a.Cols+gemmDepth-1)/gemmDepth)
	width := gemmWidth * g.tile.Cols
	for g.j0 = 0; g.j0 < c.Cols; g.j0 += width {
		g.cols = min(width, c.Cols-g.j0)
		for i := range parts {
			g.first = i == 0
			g.k0 = a.Cols * i / parts
			g.depth = a.Cols*(i+1)/parts - g.k0
			g.part()
		}
	}
	g.a, g.b, g.c = Mat{}, Mat{}, Mat{}
}

// part packs and multiplies rows k0 to k0+depth and columns j0 to j0+cols of b.
func (g *Gemm) part() {
	t := g.tile
	g.panels = (g.cols + t.Cols - 1) / t.Cols
	sizeB, sizeA := g.panels*g.depth*t.Cols, 0
	if g.a.Transposed {
		sizeA = g.a.Rows * g.depth
	}
	if len(g.scratch) < sizeA+sizeB {
		g.scratch = make([]float32, sizeA+sizeB)
	}
	g.packedB, g.packedA = g.scratch[:sizeB], g.scratch[sizeB:sizeB+sizeA]

	tiles := (g.c.Rows + t.Rows - 1) / t.Rows
	g.groups = (g.panels + gemmPanels - 1) / gemmPanels
	g.chunks = 1
	if n := g.pool.Threads(); n > 1 {
		g.chunks = max(1, min(tiles, (4*n+g.groups-1)/g.groups))
	}
	packs := g.panels
	if sizeA > 0 {
		packs += (g.a.Rows + 15) / 16
	}
	if g.depth > 0 {
		g.pool.Run(packs, g.packTask)
	}
	g.pool.Run(g.groups*g.chunks, g.tileTask)
}

// pack is one panel of b, or 16 rows of a transposed a.
func (g *Gemm) pack(i int) {
	t := g.tile
	if i < g.panels {
		j := g.j0 + i*t.Cols
		n := min(t.Cols, g.c.Cols-j)
		dst := g.packedB[i*g.depth*t.Cols : (i+1)*g.depth*t.Cols]
		if !g.b.Transposed {
			for k := range g.depth {
				row := dst[k*t.Cols : (k+1)*t.Cols]
				copy(row[:n], g.b.Data[(g.k0+k)*g.b.Stride+j:])
				clear(row[n:])
			}
		} else {
			for h := 0; h < n; h += 16 {
				t.transposeBlock(dst[h:], t.Cols, g.b.Data[(j+h)*g.b.Stride+g.k0:], g.b.Stride, min(16, n-h), g.depth)
			}
		}
		if g.alpha != 1 {
			kernels.scale(dst, g.alpha, dst)
		}
		return
	}
	// 16 columns of the stored matrix, depth rows: each column becomes a row of packedA.
	i0 := (i - g.panels) * 16
	n := min(16, g.a.Rows-i0)
	for k := 0; k < g.depth; k += 16 {
		t.transposeBlock(g.packedA[i0*g.depth+k:], g.depth, g.a.Data[(g.k0+k)*g.a.Stride+i0:], g.a.Stride, min(16, g.depth-k), n)
	}
}

// transposeBlock sets dst[j·dstStride+i] = src[i·srcStride+j] for i < n ≤ 16 and j < m.
func (t *Tile) transposeBlock(dst []float32, dstStride int, src []float32, srcStride, n, m int) {
	a := TransposeArgs{Dst: dst, Src: src}
	for j := 0; j < m; j += 16 {
		for i := range n {
			a.SrcRow[i] = i*srcStride + j
		}
		w := min(16, m-j)
		for q := range w {
			a.DstRow[q] = (j + q) * dstStride
		}
		t.Transpose(&a, n, w)
	}
}

// multiply computes one chunk of rows for one group of panels.
func (g *Gemm) multiply(task int) {
	t := g.tile
	group, chunk := task/g.chunks, task%g.chunks
	tiles := (g.c.Rows + t.Rows - 1) / t.Rows
	lo, hi := tiles*chunk/g.chunks*t.Rows, min(g.c.Rows, tiles*(chunk+1)/g.chunks*t.Rows)
	firstPanel, lastPanel := group*gemmPanels, min(g.panels, (group+1)*gemmPanels)
	if g.first && g.beta != 1 && (g.beta != 0 || g.depth == 0) {
		j, end := g.j0+firstPanel*t.Cols, min(g.c.Cols, g.j0+lastPanel*t.Cols)
		for i := lo; i < hi; i++ {
			row := g.c.Data[i*g.c.Stride+j : i*g.c.Stride+end]
			if g.beta == 0 {
				clear(row)
			} else {
				kernels.scale(row, g.beta, row)
			}
		}
	}
	if g.depth == 0 {
		return
	}
	segment := [1]Segment{{Len: g.depth}}
	a := GatherArgs{Segments: segment[:]}
	stride := g.a.Stride
	if g.a.Transposed {
		a.In, stride = g.packedA, g.depth
	} else {
		a.In = g.a.Data[g.k0:]
	}
	if !g.first || g.beta != 0 {
		a.Add = 1
	}
	for i := lo; i < hi; i += t.Rows {
		n := min(t.Rows, hi-i)
		for r := range n {
			a.InRow[r], a.OutRow[r] = (i+r)*stride, (i+r)*g.c.Stride
		}
		for panel := firstPanel; panel < lastPanel; panel++ {
			j := g.j0 + panel*t.Cols
			a.W = g.packedB[panel*g.depth*t.Cols:]
			a.Out = g.c.Data[j:]
			t.Gather(&a, n, min(t.Cols, g.c.Cols-j))
		}
	}
}
