package show

import (
	"fmt"
	"math"
)

// place is the rank of trial i of n from 0, the best, to 1.
func place(i, n int) float64 { return float64(i) / float64(max(1, n-1)) }

// shade goes from blue, the best, over green to a light grey-yellow: viridis' order, dark to light,
// which is told apart in grey, too.
func shade(place float64) string {
	stops := [][3]float64{{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {222, 220, 120}}
	x := min(max(place, 0), 1) * float64(len(stops)-1)
	i := min(int(x), len(stops)-2)
	f := x - float64(i)
	var c [3]int
	for k := range c {
		c[k] = int(math.Round(stops[i][k]*(1-f) + stops[i+1][k]*f))
	}
	return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2])
}
