package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/bench/internal/machine"
)

func wall(r rate) float64 { return r.wall }
func cpu(r rate) float64  { return r.cpu }

// of takes one number of each rate.
func of(what func(rate) float64, rates []rate) []float64 {
	out := make([]float64, len(rates))
	for i, r := range rates {
		out[i] = what(r)
	}
	return out
}

// median is the middle value, or the mean of the two in the middle.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// figure writes a rate with at least three digits.
func figure(x float64) string {
	if x < 100 {
		return fmt.Sprintf("%.3g", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// ratio is that of the medians.
func ratio(what func(rate) float64, a, b []rate) float64 {
	return median(of(what, a)) / median(of(what, b))
}

// pairs are the smallest, middle and largest ratio of spells that followed each other.
func pairs(a, b []rate) (lo, mid, hi float64) {
	x := make([]float64, len(a))
	for i := range a {
		x[i] = a[i].wall / b[i].wall
	}
	return slices.Min(x), median(x), slices.Max(x)
}

const (
	// quietShare is the part of the cores that others may take in a quiet spell.
	quietShare = 0.05

	// quietFew is how many quiet pairs are enough to leave the others out.
	quietFew = 3

	// patience times as many spells as asked for are made, in the hope of quiet ones.
	patience = 4
)

// quietTurns keeps the turns during whose spells nothing else ran, if there are some; else those
// that others have not disturbed, if there are some; else all. Threads that wait for each other by
// spinning, as PyTorch's do, lose far more by others' load than those that do not.
func quietTurns(sides ...[]rate) [][]rate {
	for _, most := range []float64{quietShare, machine.DisturbedShare} {
		quiet := make([][]rate, len(sides))
		for i := range sides[0] {
			if slices.ContainsFunc(sides, func(s []rate) bool { return s[i].others > most }) {
				continue
			}
			for k, s := range sides {
				quiet[k] = append(quiet[k], s[i])
			}
		}
		if len(quiet[0]) >= quietFew {
			return quiet
		}
	}
	return sides
}

// others is the largest share of the cores that others took during a spell that counts.
func (r *result) others() float64 {
	most := 0.0
	for _, rates := range [][]rate{r.ours, r.peer, r.oursAlone, r.peerAlone} {
		for _, x := range rates {
			most = max(most, x.others)
		}
	}
	return most
}

// busy is the time in seconds that all cores together have worked; 0 where the system does not
// tell.
func busy() float64 {
	// The counters of /proc/stat count hundredths of a second.
	const hertz = 100
	data, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(data), "\n")
	sum := 0.0
	for i, field := range strings.Fields(line) {
		// user, nice, system, then idle and waiting, then interrupts, and what other
		// machines on the same host took.
		if ticks, err := strconv.ParseFloat(field, 64); err == nil && (i <= 3 || 6 <= i && i <= 8) {
			sum += ticks / hertz
		}
	}
	return sum
}
