package conv

import "github.com/paragon-train/paragon/internal/compute/f32"

// A weightOut moves the sums of tiles to dw. A tile has rows of sums for each of its taps, and one
// more, of zeros.
type weightOut struct {
	shape Shape
	tile  *f32.Tile
	rows  int

	// swap says that x and dy have changed places, in shape too.
	swap bool

	// flat says that rows are the (tap, channel) pairs of a row of taps, which has rowParts tiles.
	flat     bool
	rowParts int

	// source has, for each (channel of a tile, tap) of w's order, its row in a tile's sums, unless
	// flat.
	source []int

	// dw is that of the call under way.
	dw []float32
}

// sumRows is a weightOut's source for tiles of so many rows for each tap. It is the row of zeros
// for taps that no pixel uses.
func sumRows(rows, taps int, used func(tap int) bool) (source []int) {
	for i := range rows {
		for tap := range taps {
			if used(tap) {
				source = append(source, tap*rows+i)
			} else {
				source = append(source, taps*rows)
			}
		}
	}
	return source
}

// fetch fetches the part of dw that write will write.
func (o *weightOut) fetch(panel, rowTile int) {
	if o.swap || o.flat {
		return
	}
	s, taps := o.shape, o.shape.R*o.shape.S
	k0, c0 := panel*o.tile.Cols, rowTile*o.rows
	o.tile.Fetch(o.dw[(k0*s.C+c0)*taps:], s.C*taps, min(o.tile.Cols, s.K-k0), min(o.rows, s.C-c0)*taps)
}

// write writes a tile's sums to dw.
func (o *weightOut) write(sums []float32, panel, rowTile int) {
	if o.swap {
		o.writeSwapped(sums, panel, rowTile)
		return
	}
	s, cols := o.shape, o.tile.Cols
	taps := s.R * s.S
	if o.flat {
		o.writeFlat(sums, panel, rowTile)
		return
	}
	c0 := rowTile * o.rows

	// values are those of one output channel, which follow each other in dw.
	values := min(o.rows, s.C-c0) * taps
	a := f32.TransposeArgs{Dst: o.dw, Src: sums}
	for h := 0; h < cols; h += 16 {
		k0 := panel*cols + h
		m := min(16, cols-h, s.K-k0)
		if m <= 0 {
			return
		}
		for q := 0; q < values; q += 16 {
			n := min(16, values-q)
			for i := range n {
				a.SrcRow[i] = o.source[q+i]*cols + h
			}
			for j := range m {
				a.DstRow[j] = ((k0+j)*s.C+c0)*taps + q
			}
			o.tile.Transpose(&a, n, m)
		}
	}
}

// writeSwapped writes a tile's sums to dw where x and dy have changed places.
func (o *weightOut) writeSwapped(sums []float32, panel, rowTile int) {
	s, cols := o.shape, o.tile.Cols
	c0, k0 := rowTile*o.rows, panel*cols
	n := min(cols, s.K-k0)
	o.tile.CopyRows(o.dw[c0*s.K+k0:], s.K, sums, cols, min(o.rows, s.C-c0), n, n)
}

// writeFlat writes a tile's sums to dw where rows are the (tap, channel) pairs of a row of taps.
func (o *weightOut) writeFlat(sums []float32, panel, rowTile int) {
	s, cols := o.shape, o.tile.Cols
	r, first := rowTile/o.rowParts, rowTile%o.rowParts*o.rows
	for k := panel * cols; k < min(s.K, (panel+1)*cols); k++ {
		for i := range min(o.rows, s.S*s.C-first) {
			tap, c := r*s.S+(first+i)/s.C, (first+i)%s.C
			o.dw[(k*s.C+c)*s.R*s.S+tap] = sums[i*cols+k-panel*cols]
		}
	}
}
