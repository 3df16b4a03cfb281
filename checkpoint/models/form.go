package models

import (
	"fmt"
	"slices"
)

// A Form is how a parameter's numbers are arranged in a file, compared with package nn, where a
// linear layer's weight is (out,in).
type Form uint8

const (
	// AsIs is the same arrangement.
	AsIs Form = iota
	// Transposed is (in,out), as Hugging Face's Conv1D has it. A square matrix looks the same
	// either way: names decide alone.
	Transposed
	// Interleaved has the rows of each head in the order of Meta's Llama: rows 2j and 2j+1 of a
	// head turn together, where package nn and Hugging Face turn rows j and j+D/2.
	Interleaved
)

// Shape returns the shape in the model of a tensor of this shape in a file, and the other way round:
// the forms' shapes are their own inverses.
func (f Form) Shape(shape []int) ([]int, error) {
	if f == AsIs {
		return shape, nil
	}
	if len(shape) != 2 {
		return nil, fmt.Errorf("got shape %v, want a matrix", shape)
	}
	if f == Transposed {
		return []int{shape[1], shape[0]}, nil
	}
	return shape, nil
}

// Read rearranges the numbers of a tensor, whose shape in the file is given, as the model has them.
// head is the number of rows of a head, for Interleaved alone.
func (f Form) Read(dst, src []float32, shape []int, head int) error {
	return f.arrange(dst, src, shape, head, true)
}

// Write is the inverse of Read: shape is that in the model.
func (f Form) Write(dst, src []float32, shape []int, head int) error {
	return f.arrange(dst, src, shape, head, false)
}

func (f Form) arrange(dst, src []float32, shape []int, head int, reading bool) error {
	if f == AsIs {
		copy(dst, src)
		return nil
	}
	if len(shape) != 2 || len(dst) != len(src) || len(src) != shape[0]*shape[1] {
		return fmt.Errorf("got %d and %d numbers of shape %v, want those of one matrix", len(dst), len(src), shape)
	}
	rows, columns := shape[0], shape[1]
	if f == Transposed {
		transpose(dst, src, rows, columns)
		return nil
	}
	if head < 2 || head%2 != 0 || rows%head != 0 {
		return fmt.Errorf("got %d rows and heads of %d, want heads of an even number of rows that divides them", rows, head)
	}
	for i := range rows {
		// Row i of halves is row 2j, or 2j+1 in the upper half, of the same head interleaved.
		first, within := i-i%head, i%head
		other := first + within%(head/2)*2 + within/(head/2)
		to, from := i, other
		if !reading {
			to, from = other, i
		}
		copy(dst[to*columns:(to+1)*columns], src[from*columns:(from+1)*columns])
	}
	return nil
}

// transpose writes a matrix of so many rows and columns the other way round, in tiles that stay in
// the cache.
func transpose(dst, src []float32, rows, columns int) {
	const tile = 32
	for i0 := 0; i0 < rows; i0 += tile {
		for j0 := 0; j0 < columns; j0 += tile {
			for i := i0; i < min(i0+tile, rows); i++ {
				for j := j0; j < min(j0+tile, columns); j++ {
					dst[j*rows+i] = src[i*columns+j]
				}
			}
		}
	}
}

// NeedsHead reports whether a layout needs the number of rows of a head.
func (l *Layout) NeedsHead() bool {
	return slices.ContainsFunc(l.rules, func(r rule) bool { return r.form == Interleaved })
}
