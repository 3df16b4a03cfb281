package trace

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/bench/pollux/internal/delaunay"
)

// qhull has a line for each application: its name and the numbers of its grid's points (those of
// placements.csv by nodes, replicas and local batch, then the lines of scalability.csv) in the
// order in which Qhull adds them to its hull. It is the output of "qhull d Qbb Qc Qz Q12 Qt T1",
// version 2020.2, the options of scipy's LinearNDInterpolator. The published results depend on it.
//
//go:embed qhull.txt
var qhull string

// otherCell are positions on a face between two cells where scipy's search for the cell ends in the
// other one. Those are listed that the published run of Optimus comes to.
var otherCell = map[string][]delaunay.Point{
	"deepspeech2": {{5, 6, 53}, {5, 6, 54}, {6, 11, 58}},
	"imagenet":    {{5, 7, 183}, {5, 10, 160}, {6, 11, 194}, {8, 13, 124}, {8, 17, 189}, {8, 18, 178}, {8, 19, 169}, {10, 12, 178}, {12, 17, 189}},
}

// splitOrder returns how late each of n points comes; nil for points that are not those of the
// published traces.
func splitOrder(application string, n int) ([]int, error) {
	for line := range strings.Lines(qhull) {
		words := strings.Fields(line)
		if words[0] != application || len(words) != n+1 {
			continue
		}
		order := make([]int, n)
		for when, w := range words[1:] {
			point, err := strconv.Atoi(w)
			if err != nil || point < 0 || point >= n {
				return nil, fmt.Errorf("trace: qhull.txt: %s has point %q of %d", application, w, n)
			}
			order[point] = when
		}
		return order, nil
	}
	return nil, nil
}
