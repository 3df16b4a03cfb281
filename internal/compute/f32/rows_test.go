package f32

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestRowsAreMovedAndAdded(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 9))
		for _, rowLen := range []int{1, 3, 8, 16, 24, 64} {
			for _, n := range []int{0, 1, 2, 15, 16, 17, 40} {
				const tableRows = 30
				table, rows, from := normal(r, tableRows*rowLen), make([]int64, n), make([]int64, n)
				for i := range rows {
					rows[i], from[i] = r.Int64N(tableRows), r.Int64N(tableRows)
				}
				dst, all := guarded(r, n*rowLen)
				GatherRows(dst, table, rows, rowLen)
				for i, row := range rows {
					if !slices.Equal(dst[i*rowLen:(i+1)*rowLen], table[int(row)*rowLen:int(row+1)*rowLen]) {
						t.Fatalf("GatherRows of %d rows of %d: row %d is not row %d of the table", n, rowLen, i, row)
					}
				}
				intact(t, "GatherRows", all, n*rowLen)
				for _, add := range []bool{false, true} {
					got, all := guarded(r, tableRows*rowLen)
					want := slices.Clone(got)
					for i, row := range rows {
						for j := range rowLen {
							if add {
								want[int(row)*rowLen+j] += table[int(from[i])*rowLen+j]
							} else {
								want[int(row)*rowLen+j] = dst[i*rowLen+j]
							}
						}
					}
					if add {
						AddRows(got, rows, table, from, rowLen)
					} else {
						ScatterRows(got, dst, rows, rowLen)
					}
					if !slices.Equal(got, want) {
						t.Fatalf("%d rows of %d, add %v: got %v, want %v", n, rowLen, add, got, want)
					}
					intact(t, "ScatterRows", all, tableRows*rowLen)
				}
			}
		}
	})
}

func TestARowBeyondItsTablePanics(t *testing.T) {
	x := make([]float32, 16)
	for _, rows := range [][]int64{{2}, {0, -1}} {
		for name, f := range map[string]func(){
			"GatherRows":  func() { GatherRows(make([]float32, 8*len(rows)), x, rows, 8) },
			"ScatterRows": func() { ScatterRows(x, make([]float32, 8*len(rows)), rows, 8) },
			"AddRows":     func() { AddRows(x, rows, x, make([]int64, len(rows)), 8) },
		} {
			func() {
				defer func() {
					if p, ok := recover().(string); !ok || !strings.Contains(p, name) {
						t.Errorf("%s of rows %v of 2: got panic %q, want one that names it", name, rows, p)
					}
				}()
				f()
			}()
		}
	}
}
