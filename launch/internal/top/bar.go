package top

import (
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
)

// The parts of a bar can be told apart without colour.
const (
	computeCell = "█"
	waitCell    = "░"
	dataCell    = "▒"
	otherCell   = "·"
)

// partsBar divides so many cells as the parts divide the total; what is left is otherCell. A part
// is not shown where it is under half a cell.
func partsBar(total, compute, wait, data control.Number, cells int) string {
	whole := float64(total)
	if !(whole > 0) || math.IsInf(whole, 0) {
		return strings.Repeat(" ", cells)
	}
	var b strings.Builder
	sum, used := 0.0, 0
	for _, p := range []struct {
		part control.Number
		cell string
	}{{compute, computeCell}, {wait, waitCell}, {data, dataCell}} {
		if x := float64(p.part); x > 0 {
			sum += x
		}
		end := min(cells, int(math.Round(float64(cells)*sum/whole)))
		b.WriteString(strings.Repeat(p.cell, max(0, end-used)))
		used = max(used, end)
	}
	return b.String() + strings.Repeat(otherCell, cells-used)
}

// sparkLevels are the heights of a sparkline's points.
var sparkLevels = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the newest values, one a cell; top is the value of the highest level. Unknown
// values are spaces.
func sparkline(values []float64, top float64, cells int) string {
	if len(values) > cells {
		values = values[len(values)-cells:]
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", max(0, cells-len(values))))
	for _, v := range values {
		if math.IsNaN(v) || !(top > 0) {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(sparkLevels[max(0, min(len(sparkLevels)-1, int(v/top*float64(len(sparkLevels)))))])
	}
	return b.String()
}

// sparkTop is the value of the highest level of sparklines that are to be compared: the largest
// value, but at most three times the median, so that a single long step does not flatten the rest.
func sparkTop(cells int, lines ...[]float64) float64 {
	var all []float64
	for _, values := range lines {
		for _, v := range values[max(0, len(values)-max(0, cells)):] {
			if v > 0 && !math.IsInf(v, 0) {
				all = append(all, v)
			}
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return min(all[len(all)-1], 3*all[len(all)/2])
}
