package f32

import (
	"fmt"
	"math"
)

// A tile unit (Intel's AMX) holds matrices of up to 16 rows of 64 bytes in registers of its own and
// multiplies two of them in one instruction: 16×32 by 32×16 bfloat16, sums in float32. Blocks
// computes with 2×2 such registers, which is what keeps the unit busy: four loads for four
// products.
const (
	// UnitRows is the rows of one register, which lie a constant stride apart.
	UnitRows = 16

	UnitBlock = 32 // rows and columns of a block

	// UnitDepth is the values of the reduction in one step.
	UnitDepth = 32

	// unitSums is how many a block has.
	unitSums = 1024
)

// BlockArgs is a call of Tile.Blocks. All offsets and strides are in elements.
//
// The layout is known to the assembly.
type BlockArgs struct {
	A, B []uint16
	Sums []float32

	// Rows has, for each block, the first row in A of its upper and of its lower 16 rows.
	Rows [][2]int

	// Segments is the reduction: Len steps, from offset In of each row of A, and W of a panel of B.
	Segments []Segment

	// Stride is in A, from one row of 16 to the next.
	Stride int

	// Step is in A, from one step to the next.
	Step int

	Panels int // panels of 32 columns of B

	// Panel is in B, from one panel to the next.
	Panel int

	// Add is 1 to add to Sums, and 0 to overwrite them.
	Add uint64
}

// Unit is the tile of the machine's tile unit, or nil where t's path does not use one: its Blocks
// takes the place of Gather and Outer, which it does not have, and its panels have UnitBlock
// columns. All that packs and moves is there.
func (t *Tile) Unit() *Tile { return t.unit }

// WithEmulatedUnit is t with a tile unit in plain Go, which computes as the instructions do: for
// tests.
func (t *Tile) WithEmulatedUnit() *Tile {
	with := *t
	with.unit = newUnitTile(t.path)
	with.unit.emulated = true
	return &with
}

// newUnitTile is the tile of a unit beside the vector instructions of a path. It is its own unit.
func newUnitTile(p Path) *Tile {
	t := &Tile{Rows: UnitBlock, Cols: UnitBlock, path: p, pairs: true}
	t.unit = t
	return t
}

// Blocks multiplies blocks of rows of A by panels of B. Sums of block b and panel p are the 32×32
// values from (b·Panels + p)·1024, row after row:
//
//	sums[i·32 + j] (+)= Σ over segments, steps s < Len and k < 32 of a[row(i) + In + s·Step + k] · b[p·Panel + W + s·1024 + k/2·64 + 2j + k%2]
//
// where row(i) is Rows[b][i/16] + i%16·Stride. So B lies in pairs of rows: 16 rows of 32 pairs for
// each step, as PairRows and the other functions of pairs make them.
//
// Of each step, the products of the lower halves of pairs are summed in order, and so are those of
// the upper halves; both sums are added, and then added to what the steps before gave. Subnormal
// numbers count as zeros. Rounding is to nearest even. Whole registers are read: 16 rows, whether
// they are wanted or not; NaN in one row of A reaches no other row of the sums.
func (t *Tile) Blocks(a *BlockArgs) {
	if len(a.Rows) == 0 || a.Panels <= 0 {
		return
	}
	a.check()
	if len(a.Segments) == 0 {
		if a.Add == 0 {
			clear(a.Sums[:len(a.Rows)*a.Panels*unitSums])
		}
		return
	}
	if t.emulated {
		blocksPortable(a)
		return
	}
	blocks(a)
}

// check keeps the assembly within the slices: a mistake of the caller's would read or overwrite
// memory of others.
func (a *BlockArgs) check() {
	fail := func(what string, end, have int) {
		panic(fmt.Sprintf("f32: Blocks: %s: up to element %d of %d", what, end, have))
	}
	if n := len(a.Rows) * a.Panels * unitSums; n > len(a.Sums) {
		fail("Sums", n, len(a.Sums))
	}
	if a.Stride < 0 || a.Step < 0 || a.Panel < 0 {
		panic(fmt.Sprintf("f32: Blocks: stride %d, step %d, panel %d, want 0 or more", a.Stride, a.Step, a.Panel))
	}
	low, high, b := math.MaxInt, 0, 0
	for _, s := range a.Segments {
		if s.Len <= 0 || s.W < 0 {
			panic(fmt.Sprintf("f32: Blocks: segment %+v", s))
		}
		low, high = min(low, s.In), max(high, s.In+(s.Len-1)*a.Step)
		b = max(b, s.W+s.Len*unitSums)
	}
	if len(a.Segments) == 0 {
		return
	}
	if n := (a.Panels-1)*a.Panel + b; n > len(a.B) {
		fail("B", n, len(a.B))
	}
	for _, r := range a.Rows {
		if from := min(r[0], r[1]) + low; from < 0 {
			fail("A", from, len(a.A))
		}
		if n := max(r[0], r[1]) + (UnitRows-1)*a.Stride + high + UnitDepth; n > len(a.A) {
			fail("A", n, len(a.A))
		}
	}
}

// blocksPortable is Blocks in plain Go. To the race detector, which would make it slow, it is like
// the assembly.
//
//go:norace
func blocksPortable(a *BlockArgs) {
	for b, rows := range a.Rows {
		for p := range a.Panels {
			sums := a.Sums[(b*a.Panels+p)*unitSums:][:unitSums]
			if a.Add == 0 {
				clear(sums)
			}
			for _, seg := range a.Segments {
				for s := range seg.Len {
					var low, high unitHalf
					splitStep(&low, &high, a.B[p*a.Panel+seg.W+s*unitSums:][:unitSums])
					for i := range UnitBlock {
						x := a.A[rows[i/UnitRows]+i%UnitRows*a.Stride+seg.In+s*a.Step:][:UnitDepth]
						addStep(sums[i*UnitBlock:][:UnitBlock], x, &low, &high)
					}
				}
			}
		}
	}
}

// A unitHalf is half of a step of B: the first or the second of each pair of rows.
type unitHalf [UnitDepth / 2][UnitBlock]float32

// splitStep takes a step of B apart.
//
//go:norace
func splitStep(low, high *unitHalf, from []uint16) {
	for k := range low {
		for j := range low[k] {
			low[k][j], high[k][j] = unitValue(from[k*64+2*j]), unitValue(from[k*64+2*j+1])
		}
	}
}

// addStep adds the products of a row of A and a step of B to a row of sums, in the order in which
// the unit does. Products of two bfloat16 are exact.
//
//go:norace
func addStep(sums []float32, x []uint16, low, high *unitHalf) {
	var even, odd [UnitBlock]float32
	for k := range low {
		l, h := unitValue(x[2*k]), unitValue(x[2*k+1])
		lows, highs := &low[k], &high[k]
		for j := range even {
			even[j] += l * lows[j]
			odd[j] += h * highs[j]
		}
	}
	for j := range sums {
		sums[j] = flushed(flushed(sums[j]) + flushed(flushed(even[j])+flushed(odd[j])))
	}
}

// unitValue is a bfloat16 as the unit reads it.
//
//go:norace
func unitValue(b uint16) float32 { return flushed(math.Float32frombits(uint32(b) << 16)) }

// flushed is v, or a zero of its sign where v is subnormal.
//
//go:norace
func flushed(v float32) float32 {
	if u := math.Float32bits(v); u&0x7f800000 == 0 {
		return math.Float32frombits(u & 0x80000000)
	}
	return v
}
