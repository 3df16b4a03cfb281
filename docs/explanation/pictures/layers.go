package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// A place is a node in its layer, or a point where an arrow passes through a layer.
type place struct {
	// node is empty for a point.
	node string

	// x is that of the middle.
	x, width float64

	above, below []*place
}

// gap is the least distance between two boxes of a layer, in pixels.
const gap = 18

// arrange makes the rows of the picture from the top down, each from left to right, with few
// crossings of arrows (the barycenter method of Sugiyama, Tagawa and Toda, 1981), and chooses each
// place's x. width is that of a node's box.
func arrange(g graph, layer map[string]int, width func(node string) float64) [][]*place {
	rows := make([][]*place, slices.Max(slices.Collect(maps.Values(layer)))+1)
	of := map[string]*place{}
	for _, n := range slices.Sorted(maps.Keys(g)) {
		of[n] = &place{node: n, width: width(n)}
		rows[layer[n]] = append(rows[layer[n]], of[n])
	}
	for _, n := range slices.Sorted(maps.Keys(g)) {
		for _, to := range g[n] {
			from := of[n]
			for i := layer[n] + 1; i <= layer[to]; i++ {
				next := of[to]
				if i < layer[to] {
					next = &place{}
					rows[i] = append(rows[i], next)
				}
				from.below, next.above = append(from.below, next), append(next.above, from)
				from = next
			}
		}
	}
	best, order := math.MaxInt, [][]*place(nil)
	for sweep := range 40 {
		number(rows)
		if c := crossings(rows); c < best {
			best, order = c, nil
			for _, row := range rows {
				order = append(order, slices.Clone(row))
			}
		}
		for i := range rows {
			row, next := rows[i], func(p *place) []*place { return p.above }
			if sweep%2 == 1 {
				row, next = rows[len(rows)-1-i], func(p *place) []*place { return p.below }
			}
			slices.SortStableFunc(row, func(a, b *place) int { return cmp.Compare(mean(a, next(a)), mean(b, next(b))) })
			number(rows)
		}
	}
	position(order)
	return order
}

// number makes x the place's number in its row.
func number(rows [][]*place) {
	for _, row := range rows {
		for i, p := range row {
			p.x = float64(i)
		}
	}
}

// mean is the mean x of neighbours, and without any p's own.
func mean(p *place, neighbours []*place) float64 {
	if len(neighbours) == 0 {
		return p.x
	}
	sum := 0.0
	for _, n := range neighbours {
		sum += n.x
	}
	return sum / float64(len(neighbours))
}

// crossings counts the arrows that cross.
func crossings(rows [][]*place) (n int) {
	for _, row := range rows {
		for i, a := range row {
			for _, b := range row[i+1:] {
				n += crossed(a, b)
			}
		}
	}
	return n
}

// crossed counts the arrows of a that cross some of b, which is at the right of a.
func crossed(a, b *place) (n int) {
	for _, x := range a.below {
		for _, y := range b.below {
			if x.x > y.x {
				n++
			}
		}
	}
	return n
}

// position chooses x so that places stand below and above their neighbours as far as their order
// and widths allow.
func position(rows [][]*place) {
	for _, row := range rows {
		x := 0.0
		for _, p := range row {
			p.x = x + p.width/2
			x += p.width + gap
		}
	}
	for range 200 {
		for _, row := range rows {
			want := make([]float64, len(row))
			for i, p := range row {
				want[i] = mean(p, slices.Concat(p.above, p.below))
			}
			fit(row, want)
		}
	}
	left := math.Inf(1)
	for _, row := range rows {
		left = min(left, row[0].x-row[0].width/2)
	}
	for _, row := range rows {
		for _, p := range row {
			p.x += gap - left
		}
	}
}

// fit gives a row's places the x that they want, or where they would overlap the nearest to that by
// least squares.
func fit(row []*place, want []float64) {
	// A block is a group of places that touch.
	type block struct{ sum, count float64 }
	var blocks []block

	// offsets are the distances from the first place if all touch.
	offsets := make([]float64, len(row))
	for i, p := range row {
		if i > 0 {
			offsets[i] = offsets[i-1] + row[i-1].width/2 + gap + p.width/2
		}
		b := block{want[i] - offsets[i], 1}
		for len(blocks) > 0 && blocks[len(blocks)-1].sum/blocks[len(blocks)-1].count > b.sum/b.count {
			last := blocks[len(blocks)-1]
			b = block{b.sum + last.sum, b.count + last.count}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	i := 0
	for _, b := range blocks {
		for range int(b.count) {
			row[i].x = b.sum/b.count + offsets[i]
			i++
		}
	}
}
