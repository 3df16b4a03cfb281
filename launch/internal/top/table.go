package top

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// A column is one of a table whose width is the terminal's. Text that does not fit its cell is cut.
type column struct {
	title string
	least int  // cells that it needs
	most  int  // cells that it can use; 0: least
	right bool // the text stands at the right edge
	// Columns are left out where there is no room: those with the highest rank first, 0 never.
	rank int
}

// fit are the widths of the columns in so many cells, with one cell between them and two where there is room; -1: the column is left out.
func fit(columns []column, cells int) (widths []int, gap string) {
	widths = make([]int, len(columns))
	need := func(gap int) (sum int) {
		for i, c := range columns {
			if widths[i] >= 0 {
				sum += max(c.least, lipgloss.Width(c.title)) + gap
			}
		}
		return sum - gap
	}
	for need(1) > cells {
		worst := -1
		for i, c := range columns {
			if widths[i] >= 0 && c.rank > 0 && (worst < 0 || c.rank > columns[worst].rank) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		widths[worst] = -1
	}
	n := 1
	if need(2) <= cells {
		n = 2
	}
	left := cells - need(n)
	for i, c := range columns {
		if widths[i] >= 0 {
			widths[i] = max(c.least, lipgloss.Width(c.title))
		}
	}
	for grew := true; grew && left > 0; {
		grew = false
		for i, c := range columns {
			if widths[i] >= 0 && widths[i] < c.most && left > 0 {
				widths[i], left, grew = widths[i]+1, left-1, true
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
