package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Lengths in pixels: of a box's title, of a line of its contents, between the boxes of two floors,
// and above the first floor.
const (
	titleHeight   = 27
	contentHeight = 15
	between       = 46
	topMargin     = 74
)

// The contents of a box are written in lines of at most contentChars characters. What takes more
// than contentLines of them is counted instead.
const (
	contentChars = 58
	contentLines = 3
)

// A floorPlan is the picture of the packages while it is drawn.
type floorPlan struct {
	svg  svg
	rows [][]*place

	// contents are the lines of each box below its title.
	contents map[string][]string

	// y and height are those of each row's boxes.
	y, height []float64
}

// drawPackages draws the rooms in floors, with an arrow for each import that does not follow from
// others.
func drawPackages(imported map[string][]string) []byte {
	g := reduce(fold(imported))
	plan := &floorPlan{contents: contents(within(imported))}
	plan.rows = arrange(g, floors(g), plan.boxWidth)
	plan.chooseHeights()
	plan.drawArrows()
	for i, row := range plan.rows {
		for _, p := range row {
			if p.node != "" {
				plan.drawRoom(p, plan.y[i], plan.height[i])
			}
		}
	}
	plan.drawLegend()
	last := len(plan.rows) - 1
	return plan.svg.bytes(plan.width()+gap, plan.y[last]+plan.height[last]+gap, "The packages of Paragon, and what each imports")
}

// contents breaks each list of packages into lines.
func contents(packages map[string][]string) map[string][]string {
	all := map[string][]string{}
	for room, list := range packages {
		line, lines := "", []string(nil)
		for i, p := range list {
			if i < len(list)-1 {
				p += ", "
			}
			if len(line)+len(p) > contentChars {
				lines, line = append(lines, strings.TrimSpace(line)), ""
			}
			line += p
		}
		if all[room] = append(lines, line); len(all[room]) > contentLines {
			all[room] = []string{fmt.Sprintf("%d packages", len(list))}
		}
	}
	return all
}

func (f *floorPlan) boxWidth(room string) float64 {
	width := (charWidth + 1) * len(room)
	for _, line := range f.contents[room] {
		width = max(width, len(line)*charWidth*5/6)
	}
	return float64(width + 22)
}

func (f *floorPlan) chooseHeights() {
	y := float64(topMargin)
	for _, row := range f.rows {
		lines := 0
		for _, p := range row {
			lines = max(lines, len(f.contents[p.node]))
		}
		height := float64(titleHeight + 7 + contentHeight*lines)
		f.y, f.height = append(f.y, y), append(f.height, height)
		y += height + between
	}
}

func (f *floorPlan) width() float64 {
	width := 0.0
	for _, row := range f.rows {
		last := row[len(row)-1]
		width = max(width, last.x+last.width/2)
	}
	return width
}

// drawArrows draws the arrows from floor to floor. Those of a box leave it side by side.
func (f *floorPlan) drawArrows() {
	for i, row := range f.rows {
		bottom := f.y[i] + f.height[i]
		for _, p := range row {
			if p.node == "" {
				f.svg.add(`<path d="M%.0f,%.0f V%.0f" stroke="%s"/>`, p.x, f.y[i], bottom, line)
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
				f.svg.add(`<path d="M%.0f,%.0f C%.0[1]f,%.0[3]f %.0[4]f,%.0[3]f %.0[4]f,%.0[5]f" fill="none" stroke="%s"%s/>`,
					from, bottom, bottom+between/2, to.x, f.y[i+1], line, end)
			}
		}
	}
}

func (f *floorPlan) drawRoom(p *place, y, height float64) {
	lines := f.contents[p.node]
	f.svg.box(p.x-p.width/2, y, p.width, height, colour(p.node))
	baseline := y + (height-float64(contentHeight*len(lines)))/2 + 5
	f.svg.text(p.x, baseline, "font-weight:600", p.node)
	for i, line := range lines {
		f.svg.text(p.x, baseline+2+float64(contentHeight*(i+1)), small, line)
	}
}

func (f *floorPlan) drawLegend() {
	x := float64(gap)
	for _, l := range []struct{ fill, text string }{{command, "command"}, {public, "public packages"}, {internal, "internal packages"}} {
		f.svg.box(x, 14, 24, 18, l.fill)
		f.svg.text(x+32, 28, "text-anchor:start", l.text)
		x += float64((charWidth+1)*len(l.text)) + 56
	}
	f.svg.text(gap, 52, small+";text-anchor:start", "Arrows: imports that do not follow from other arrows. Small: packages within.")
}

func colour(room string) string {
	switch {
	case room == nodeOf("launch") || room == nodeOf("bench"):
		return command
	case strings.HasPrefix(room, "internal/"):
		return internal
	}
	return public
}
