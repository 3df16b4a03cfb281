package top

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/paragon-train/paragon/internal/member/control"
)

// unknown stands where a number is not known.
const unknown = "-"

// clean takes out what would change a terminal's state: text of other processes may hold anything.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// amount writes three digits: 7, 12.5, 213, 4.1k, 13.6M.
func amount(n control.Number) string {
	return scaled(float64(n), 1000, []string{"", "k", "M", "G", "T", "P"})
}

// size writes bytes: 812, 4.1K, 13.6M.
func size(n control.Number) string {
	return scaled(float64(n), 1024, []string{"", "K", "M", "G", "T", "P"})
}

// scaled writes x with three digits in the first unit that they are enough for. A unit is base
// times the one before.
func scaled(x, base float64, units []string) string {
	switch {
	case math.IsNaN(x):
		return unknown
	case math.IsInf(x, 0):
		return strings.ToLower(fmt.Sprintf("%g", x))
	}
	i := 0
	for ; math.Abs(x) >= 999.5 && i < len(units)-1; i++ {
		x /= base
	}
	switch a := math.Abs(x); {
	case a >= 99.95 || x == math.Trunc(x):
		return fmt.Sprintf("%.0f%s", x, units[i])
	case a >= 9.995 || i > 0:
		return fmt.Sprintf("%.1f%s", x, units[i])
	}
	return fmt.Sprintf("%.2f%s", x, units[i])
}

// whole writes an integer with all its digits.
func whole(n control.Number) string {
	if x := float64(n); !math.IsNaN(x) && !math.IsInf(x, 0) {
		return fmt.Sprintf("%.0f", x)
	}
	return unknown
}

// loss writes at most six cells, with the points of a column below each other as long as losses are
// below 10.
func loss(n control.Number) string {
	switch x := math.Abs(float64(n)); {
	case math.IsNaN(x):
		return unknown
	case x != 0 && x < 1e-4 || x >= 1e5:
		return fmt.Sprintf("%.0e", float64(n))
	case x < 10:
		return fmt.Sprintf("%.4f", float64(n))
	case x < 100:
		return fmt.Sprintf("%.3f", float64(n))
	}
	return fmt.Sprintf("%.1f", float64(n))
}

// value writes four digits.
func value(n control.Number) string {
	switch x := float64(n); {
	case math.IsNaN(x):
		return unknown
	case math.Abs(x) >= 1e5 || x != 0 && math.Abs(x) < 1e-4:
		return fmt.Sprintf("%.1e", x)
	default:
		return fmt.Sprintf("%.4g", x)
	}
}

// span writes a time in seconds: 41µs, 4.1ms, 213ms, 1.25s, 2m5s.
func span(n control.Number) string {
	x := float64(n)
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return unknown
	case x < 1e-3:
		return fmt.Sprintf("%.0fµs", x*1e6)
	case x < 0.00995:
		return fmt.Sprintf("%.2fms", x*1e3)
	case x < 0.0995:
		return fmt.Sprintf("%.1fms", x*1e3)
	case x < 0.9995:
		return fmt.Sprintf("%.0fms", x*1e3)
	case x < 99.5:
		return fmt.Sprintf("%.3gs", x)
	}
	return long(time.Duration(min(x, 1e9) * 1e9))
}

// long writes a duration of minutes, hours and days: 12s, 4m12s, 3h07m, 2d5h.
func long(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	switch s := int64(d / time.Second); {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
	}
}

// percent writes a share.
func percent(n control.Number) string {
	if x := float64(n); !math.IsNaN(x) {
		return fmt.Sprintf("%.0f%%", 100*x)
	}
	return unknown
}

// Bytes writes a size for people.
func Bytes(n control.Number) string { return size(n) }
