package f32

// MaxTileRows is the largest number of rows of any path's tile.
const MaxTileRows = 12

// A Tile is the register tile of one path: the kernels of which matrix products and convolutions
// are built. A tile is Rows×Cols float32 values that stay in registers while their products are
// summed.
type Tile struct {
	Rows, Cols int
	// OuterRows are the numbers of rows that Outer can be asked for, largest first.
	OuterRows []int

	path     Path
	pairs    bool  // see PairTiles
	unit     *Tile // see Unit
	emulated bool  // a tile unit in plain Go
}

// Tiles returns the tile of a path; the path must be available.
func Tiles(p Path) *Tile { return &kernelsFor(p).tile }

// GatherArgs is a call of Tile.Gather. Rows of the left operand lie anywhere and are read where
// they are; the right operand is packed: its row k is the Cols values at k·Cols.
//
// The layout is known to the assembly.
type GatherArgs struct {
	In, W, Out []float32
	Segments   []Segment

	// Mask is set by the kernel: the columns that are stored.
	Mask uint64

	// Add is 1 to add the sum to out, and 0 to overwrite it.
	Add uint64

	InRow  [MaxTileRows]int
	OutRow [MaxTileRows]int
}

// A Segment is a run of the reduction: Len values that follow each other in each row of the left
// operand, from offset In of the row, against Len rows of the packed right operand, from its value
// W.
type Segment struct {
	In, Len, W int
}

// OuterArgs is a call of Tile.Outer: one product of a column and a row for each pair of offsets.
//
// The layout is known to the assembly.
type OuterArgs struct {
	A, B, Out []float32
	Pairs     [][2]uint32

	// Add is 1 to add the sum to out, and 0 to overwrite it.
	Add uint64
}

// TransposeArgs is a call of Tile.Transpose.
//
// The layout is known to the assembly.
type TransposeArgs struct {
	Dst, Src []float32

	// SrcMask is set by the kernel: the columns that are read.
	SrcMask uint64

	// DstMask is set by the kernel: the columns that are written.
	DstMask uint64

	// M is set by the kernel: the rows that are written.
	M int

	// Ahead is the distance in values to what a later call reads, which is fetched into the cache.
	Ahead int

	SrcRow [16]int

	// DstRow is negative for a row that is left out.
	DstRow [16]int
}

// Gather computes out[OutRow[i] + j] (+)= Σ over segments and k < Len of in[InRow[i] + In + k] ·
// w[W + k·Cols + j] for rows i < n and columns j < ncols; n is 1 to Rows and ncols 1 to Cols.
// Entries of InRow and OutRow from n on are overwritten.
func (t *Tile) Gather(a *GatherArgs, n, ncols int) { t.gather(a, n, ncols) }

// Outer computes out[i·Cols + j] (+)= Σ over pairs of a[pair[0] + i] · b[pair[1] + j] for i < rows
// and j < Cols; rows is one of OuterRows.
func (t *Tile) Outer(a *OuterArgs, rows int) { t.outer(a, rows) }

// Transpose computes dst[DstRow[j] + i] = src[SrcRow[i] + j] for i < n and j < m, both 1 to 16, but
// for j whose DstRow is negative.
func (t *Tile) Transpose(a *TransposeArgs, n, m int) { t.transpose(a, n, m) }

// TransposeShift computes dst[DstRow[j] + i] = max(src[SrcRow[i] + j] + shift[i], floor) for i < n
// and j < m, as Transpose does; NaN stays NaN. A nil shift adds nothing.
func (t *Tile) TransposeShift(a *TransposeArgs, n, m int, shift []float32, floor float32) {
	if shift != nil {
		shift = shift[:n]
	}
	t.transposeShift(a, n, m, shift, floor)
}

// CopyRows copies the first n values of rows rows, srcStride apart, to the starts of rows dstStride
// apart, and puts zeros after them up to width values; n ≤ width.
func (t *Tile) CopyRows(dst []float32, dstStride int, src []float32, srcStride, rows, n, width int) {
	if rows > 0 {
		t.copyRows(dst[:(rows-1)*dstStride+width], dstStride, src[:(rows-1)*srcStride+n], srcStride, rows, n, width)
	}
}

// Fetch asks for the first n values of rows rows, stride apart, in the first-level cache, and does
// not wait for them. It is for what is read soon and is not in the order that the CPU would guess.
// Rows may end after x does; what lies beyond is left out.
func (t *Tile) Fetch(x []float32, stride, rows, n int) {
	if rows = min(rows, (len(x)-n+stride)/stride); rows > 0 && n > 0 && len(x) >= n {
		t.fetch(x, stride, rows, n)
	}
}

// fill points the rows from n on at row 0, so that the kernel may compute and store them like the
// others.
func (a *GatherArgs) fill(n, rows int) {
	for i := n; i < rows; i++ {
		a.InRow[i], a.OutRow[i] = a.InRow[0], a.OutRow[0]
	}
}
