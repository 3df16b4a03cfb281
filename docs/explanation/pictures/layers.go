package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A place is a node in its layer, or a point where an arrow passes through a layer.
type place struct {
	node  string // "": a point
	width float64
	x     float64 // of the middle
	above []*place
	below []*place
}

// Lengths in pixels: from the top of a layer to that of the next, of a box, between two boxes.
const (
	layerHeight = 108
	boxHeight   = 42
	gap         = 18
)

// layers puts each node into a layer, numbered from the top: below all that import it, as high as
// that allows. What nothing imports stands just above what it imports.
func layers(g graph) map[string]int {
	layer := map[string]int{}
	importers := map[string][]string{}
	for n, list := range g {
		for _, to := range list {
			importers[to] = append(importers[to], n)
		}
	}
	var visit func(n string) int
	visit = func(n string) int {
		if _, ok := layer[n]; !ok {
			layer[n] = 0
			for _, from := range importers[n] {
				layer[n] = max(layer[n], visit(from)+1)
			}
		}
		return layer[n]
	}
	for n := range g {
		visit(n)
	}
	for n, list := range g {
		if len(importers[n]) == 0 && len(list) > 0 {
			layer[n] = math.MaxInt
			for _, to := range list {
				layer[n] = min(layer[n], layer[to]-1)
			}
		}
	}
	return layer
}

// arrange makes the rows of the picture from the top down, each from left to right, with few
// crossings of arrows (the barycenter method of Sugiyama, Tagawa and Toda, 1981), and chooses each
// place's x. width is that of a node's box.
func arrange(g graph, width func(node string) float64) [][]*place {
	layer := layers(g)
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
				for _, x := range a.below {
					for _, y := range b.below {
						if x.x > y.x {
							n++
						}
					}
				}
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
	type block struct{ sum, count float64 } // of places that touch
	var blocks []block
	offsets := make([]float64, len(row)) // of each place from the first, if all touch
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

// drawPackages draws the packages of a module in layers, with an arrow for each import that does
// not follow from others, and machinery as one box below them.
func drawPackages(imported map[string][]string, machinery []string) []byte {
	g, below := fold(imported), within(imported)
	for _, m := range machinery {
		delete(g, m)
	}
	for n, list := range g {
		g[n] = slices.DeleteFunc(list, func(to string) bool { return slices.Contains(machinery, to) })
	}
	rows := arrange(reduce(g), func(n string) float64 { return charWidth*float64(max(len(n), len(contents(below[n]))*5/6)) + 20 })
	var s svg
	width, top := 0.0, 56.0
	for _, row := range rows {
		last := row[len(row)-1]
		width = max(width, last.x+last.width/2+gap)
	}
	y := func(row int) float64 { return top + float64(row)*layerHeight }
	for i, row := range rows {
		for _, p := range row {
			if p.node == "" {
				s.add(`<path d="M%.0f,%.0f v%d" stroke="%s"/>`, p.x, y(i), boxHeight, line)
			}
			slices.SortFunc(p.below, func(a, b *place) int { return cmp.Compare(a.x, b.x) })
			for j, to := range p.below {
				from, end := p.x, ""
				if p.node != "" {
					from += (float64(j+1)/float64(len(p.below)+1) - 0.5) * p.width
				}
				if to.node != "" {
					end = ` marker-end="url(#arrow)"`
				}
				s.add(`<path d="M%.0f,%.0f C%.0[1]f,%.0[3]f %.0[4]f,%.0[3]f %.0[4]f,%.0[5]f" fill="none" stroke="%s"%s/>`,
					from, y(i)+boxHeight, y(i)+(layerHeight+boxHeight)/2, to.x, y(i+1), line, end)
			}
		}
	}
	for i, row := range rows {
		for _, p := range row {
			if inside := contents(below[p.node]); inside != "" {
				s.box(p.x-p.width/2, y(i), p.width, boxHeight, colour(p.node))
				s.text(p.x, y(i)+18, "", p.node)
				s.text(p.x, y(i)+33, small, inside)
			} else if p.node != "" {
				s.box(p.x-p.width/2, y(i), p.width, boxHeight, colour(p.node))
				s.text(p.x, y(i)+25, "", p.node)
			}
		}
	}
	y0 := y(len(rows)) - layerHeight/2 + boxHeight/2
	s.box(gap, y0, width-2*gap, 56, internal)
	s.text(width/2, y0+20, small, "Packages above may import these, too:")
	s.text(width/2, y0+42, "", "internal/{"+strings.ReplaceAll(strings.Join(machinery, ", "), "internal/", "")+"}")
	x := float64(gap)
	for _, l := range []struct{ fill, text string }{{command, "command"}, {public, "public package"}, {internal, "internal package"}} {
		s.box(x, 14, 24, 18, l.fill)
		s.text(x+32, 28, "text-anchor:start", l.text)
		x += float64(charWidth*len(l.text)) + 60
	}
	s.text(x, 28, small+";text-anchor:start", "Arrows: imports that do not follow from other arrows. Small: packages in the folders below.")
	return s.bytes(width, y0+56+gap, "The packages of Paragon, and what each imports")
}

// contents lists packages, or says how many they are.
func contents(packages []string) string {
	if text := strings.Join(packages, ", "); len(text) <= 36 {
		return text
	}
	return fmt.Sprintf("%d packages", len(packages))
}

func colour(node string) string {
	switch {
	case node == "launch" || node == programs:
		return command
	case strings.HasPrefix(node, "internal/"):
		return internal
	}
	return public
}
