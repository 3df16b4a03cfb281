package metrics

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// A Table is a few rows for people: the summary at the end of a run.
//
//	t := metrics.Table{Title: "summary", Columns: []string{"worker", "images/s", "wait"}}
//	t.Row(0, 812.4, metrics.Percent(0.013))
//	t.WriteTo(os.Stdout)
type Table struct {
	// Title is a line above the table; empty is none.
	Title   string
	Columns []string
	// Note is a line below the table; empty is none.
	Note string
	rows [][]string
	// right says of each column that it holds nothing but numbers.
	right []bool
}

// Percent is a share that a Table writes as "1.3 %".
type Percent float64

// String returns the share in percent, with one digit after the point.
func (p Percent) String() string { return fmt.Sprintf("%.1f %%", 100*float64(p)) }

// Fixed is a number that a Table writes with four digits after the point, so
// that those of a column lie below each other.
type Fixed float64

// String returns the number with four digits after the point.
func (f Fixed) String() string { return fmt.Sprintf("%.4f", float64(f)) }

// Row adds a row. Floats are written with four digits, durations with three;
// columns of numbers are aligned right. Cells beyond Columns are dropped;
// missing ones and nil are empty.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(t.Columns))
	for len(t.right) < len(t.Columns) {
		t.right = append(t.right, true)
	}
	for i, c := range cells[:min(len(cells), len(row))] {
		number := true
		switch v := c.(type) {
		case nil:
		case float32:
			row[i] = formatFloat(float64(v))
		case float64:
			row[i] = formatFloat(v)
		case time.Duration:
			row[i] = formatDuration(v)
		case Percent, Fixed, int, int32, int64, uint, uint32, uint64:
			row[i] = fmt.Sprint(v)
		default:
			row[i], number = fmt.Sprint(v), false
		}
		t.right[i] = t.right[i] && number
	}
	t.rows = append(t.rows, row)
}

// formatFloat writes four digits, and all of those before the point.
func formatFloat(x float64) string {
	if x >= 1000 || x <= -1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// formatDuration writes three digits: 12.3ms, 4.56s, 2m03s.
func formatDuration(d time.Duration) string {
	for _, unit := range []time.Duration{time.Microsecond, time.Millisecond, time.Second} {
		for _, digit := range []time.Duration{unit / 100, unit / 10, unit} {
			if d.Abs() < 1000*digit && digit > 0 {
				return d.Round(digit).String()
			}
		}
	}
	return d.Round(time.Second).String()
}

// WriteTo writes the table as text.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(t.Title + "\n")
	}
	line := func(cells []string) {
		var s strings.Builder
		for i, c := range cells {
			if i > 0 {
				s.WriteString("  ")
			}
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i < len(t.right) && t.right[i] {
				s.WriteString(space + c)
			} else {
				s.WriteString(c + space)
			}
		}
		b.WriteString(strings.TrimRight(s.String(), " ") + "\n")
	}
	line(t.Columns)
	rule := make([]string, len(widths))
	for i, n := range widths {
		rule[i] = strings.Repeat("-", n)
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
	if t.Note != "" {
		b.WriteString(t.Note + "\n")
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// String returns the table as text.
func (t Table) String() string {
	var b strings.Builder
	_, _ = t.WriteTo(&b) // a Builder takes everything
	return b.String()
}
