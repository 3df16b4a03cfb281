package top

import (
	"math"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/paragon-train/paragon/internal/member/control"
)

func TestNumbersAreShort(t *testing.T) {
	nan, inf := control.Number(math.NaN()), control.Number(math.Inf(1))
	for _, c := range []struct{ got, want string }{
		{amount(0), "0"}, {amount(7), "7"}, {amount(7.25), "7.25"}, {amount(12.34), "12.3"}, {amount(213.4), "213"}, {amount(999.7), "1.0k"}, {amount(13_640), "13.6k"}, {amount(4e6), "4M"}, {amount(nan), "-"}, {amount(inf), "+inf"},
		{size(0), "0"}, {size(812), "812"}, {size(4200), "4.1K"}, {size(14.2e6), "13.5M"}, {size(nan), "-"},
		{whole(41200), "41200"}, {whole(nan), "-"}, {whole(inf), "-"},
		{loss(.072), "0.0720"}, {loss(2.302585), "2.3026"}, {loss(12.3456), "12.346"}, {loss(4e-7), "4e-07"}, {loss(0), "0.0000"}, {loss(nan), "-"}, {loss(-1), "-1.0000"},
		{value(.05), "0.05"}, {value(1e-5), "1.0e-05"}, {value(nan), "-"},
		{span(41e-6), "41µs"}, {span(.0041), "4.10ms"}, {span(.0234), "23.4ms"}, {span(.213), "213ms"}, {span(1.25), "1.25s"}, {span(125), "2m05s"}, {span(0), "0µs"}, {span(nan), "-"}, {span(inf), "-"},
		{percent(.374), "37%"}, {percent(nan), "-"},
		{long(12 * time.Second), "12s"}, {long(252 * time.Second), "4m12s"}, {long(3*time.Hour + 7*time.Minute), "3h07m"}, {long(53 * time.Hour), "2d05h"}, {long(-time.Hour), "0s"},
		{clean("a\x1b[31mb\n"), "a?[31mb?"}, {clean("höst"), "höst"},
		{cut("localhost", 9), "localhost"}, {cut("localhost1", 9), "localhos…"}, {cut("主机主机", 5), "主机…"}, {cut("主机主机", 4), "主… "}, {cut("x", 0), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestBars(t *testing.T) {
	nan := control.Number(math.NaN())
	for _, c := range []struct{ got, want string }{
		{partsBar(.1, .05, .03, .01, 10), "█████░░░▒·"}, {partsBar(.1, .1, 0, 0, 4), "████"}, {partsBar(.1, nan, .1, nan, 4), "░░░░"}, {partsBar(nan, .1, .1, .1, 4), "    "},
		{partsBar(.1, .2, .2, .2, 4), "████"}, {partsBar(.1, -1, .05, 0, 4), "░░··"}, {partsBar(.1, .1, 0, 0, 0), ""},
		{sparkline([]float64{0, .5, 1, math.NaN(), 2}, 1, 6), " ▁▅█ █"}, {sparkline([]float64{1, 2, 3}, 3, 2), "▆█"}, {sparkline([]float64{1}, 0, 2), "  "},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if top := sparkTop(5, []float64{9, 1, 1, 1, 1, 50}); top != 3 {
		t.Errorf("the highest level of steps of 1 s and one of 50 s is %g s, want 3", top)
	}
	if top := sparkTop(-1, []float64{1}); top != 0 {
		t.Errorf("no cells: got %g, want 0", top)
	}
}

// Columns fit for every width, and the important ones are there at 80.
func TestColumnsFit(t *testing.T) {
	for _, columns := range [][]column{workerColumns, serverColumns} {
		for width := 80; width <= 300; width++ {
			widths, gap := fit(columns, width)
			cells := make([]string, len(columns))
			if got := lipgloss.Width(row(columns, widths, gap, cells)); got > width {
				t.Fatalf("%d cells in a terminal of %d", got, width)
			}
		}
	}
	widths, _ := fit(workerColumns, 80)
	for i, c := range workerColumns {
		if must := c.rank < 8; must != (widths[i] > 0) {
			t.Errorf("column %s has %d cells at 80", c.title, widths[i])
		}
	}
}
