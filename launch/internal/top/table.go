package top

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
)

// A column is one of a table whose width is the terminal's. Text that does not fit its cell is cut.
type column struct {
	title string

	// least is how many cells the column needs.
	least int

	// most is how many cells it can use; 0: least.
	most int

	// wants is how many cells its longest text takes. They come before columns of a rank from
	// yields; 0: least.
	wants int

	// right says that the text stands at the right edge.
	right bool

	// Columns are left out where there is no room: those with the highest rank first, 0 never.
	rank int
}

// yields is the least rank of columns that are left out so that others show their whole text.
const yields = 4

// wanting has a column that shows such texts in place of the one with that title.
func wanting(columns []column, title string, texts []string) []column {
	columns = slices.Clone(columns)
	for i := range columns {
		c := &columns[i]
		if c.title != title {
			continue
		}
		for _, text := range texts {
			c.wants = max(c.wants, min(lipgloss.Width(text), c.most))
		}
	}
	return columns
}

// needs says how many cells the column needs at least, and whole how many it needs to show its
// whole text.
func (c *column) needs() (least, whole int) {
	least = max(c.least, lipgloss.Width(c.title))
	return least, max(least, c.wants)
}

// fit are the widths of the columns in so many cells, with one cell between them and two where
// there is room; -1: the column is left out.
func fit(columns []column, cells int) (widths []int, gap string) {
	widths = make([]int, len(columns))
	// need is what the columns take that are not left out.
	need := func(gap int) (least, whole int) {
		least, whole = -gap, -gap
		for i := range columns {
			if widths[i] >= 0 {
				l, w := columns[i].needs()
				least, whole = least+l+gap, whole+w+gap
			}
		}
		return least, whole
	}
	// leaveOut leaves out the column of the highest rank.
	leaveOut := func(rank int) bool {
		worst := -1
		for i, c := range columns {
			if widths[i] >= 0 && c.rank >= rank && (worst < 0 || c.rank > columns[worst].rank) {
				worst = i
			}
		}
		if worst >= 0 {
			widths[worst] = -1
		}
		return worst >= 0
	}
	for {
		least, whole := need(1)
		if whole <= cells || !leaveOut(yields) && (least <= cells || !leaveOut(1)) {
			break
		}
	}
	n := 1
	if _, whole := need(2); whole <= cells {
		n = 2
	}
	least, _ := need(n)
	left := cells - least
	for i := range columns {
		if widths[i] >= 0 {
			widths[i], _ = columns[i].needs()
		}
	}
	// What is left goes to texts that are cut, and then to all that can use it.
	for _, upTo := range []func(c *column) int{func(c *column) int { _, whole := c.needs(); return whole }, func(c *column) int { return c.most }} {
		for grew := true; grew && left > 0; {
			grew = false
			for i := range columns {
				if widths[i] >= 0 && widths[i] < upTo(&columns[i]) && left > 0 {
					widths[i], left, grew = widths[i]+1, left-1, true
				}
			}
		}
	}
	return widths, strings.Repeat(" ", n)
}

// pad makes text as wide as a cell.
func pad(text string, width int, right bool) string {
	text = cut(text, width)
	space := strings.Repeat(" ", width-lipgloss.Width(text))
	if right {
		return space + text
	}
	return text + space
}

// cut shortens text to so many cells, the last of which says so.
func cut(text string, width int) string {
	if lipgloss.Width(text) <= width {
		return text
	}
	if width <= 0 {
		return ""
	}
	kept, used := strings.Builder{}, 0
	for _, r := range text {
		w := lipgloss.Width(string(r))
		if used+w > width-1 {
			break
		}
		kept.WriteRune(r)
		used += w
	}
	return kept.String() + "…" + strings.Repeat(" ", width-1-used)
}

// row joins the cells of a line.
func row(columns []column, widths []int, gap string, cells []string) string {
	var parts []string
	for i, c := range columns {
		if widths[i] >= 0 {
			parts = append(parts, pad(cells[i], widths[i], c.right))
		}
	}
	return strings.Join(parts, gap)
}
