package show

import (
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/tune"
)

// parallel is a picture of parallel coordinates: an axis for each parameter, the last one for the
// metric, a line for each trial.
type parallel struct {
	Width, Height, Top, Bottom float64
	Axes                       []parallelAxis
	Lines                      []line
}

// A parallelAxis is one of the axes, which are vertical lines.
type parallelAxis struct {
	X    float64
	Name string
	// Ticks have in At where they are on the page.
	Ticks []tick
}

// newParallel has an axis for each of the parameters and each objective. The first trials, as many
// as bold says, stand out.
func newParallel(v tune.View, ranked []*tune.Trial, params []string, bold int) parallel {
	const between, margin = 150.0, 70.0
	p := parallel{Height: 340, Top: 34, Bottom: 310}
	// A column places a trial on its axis, from 0 to 1; ok is false if the trial has no value
	// there.
	type column struct {
		x     float64
		place func(t *tune.Trial) (float64, bool)
	}
	var columns []column
	add := func(name string, ticks []tick, place func(t *tune.Trial) (float64, bool)) {
		x := margin + between*float64(len(columns))
		columns = append(columns, column{x, place})
		a := parallelAxis{X: x, Name: name}
		for _, k := range ticks {
			a.Ticks = append(a.Ticks, tick{At: p.Bottom - k.At*(p.Bottom-p.Top), Text: k.Text})
		}
		p.Axes = append(p.Axes, a)
		p.Width = x + margin + 20
	}
	for _, name := range params {
		a, ok := newAxis(v.Space(), ranked, name)
		if !ok {
			continue
		}
		add(name, a.ticks, func(t *tune.Trial) (float64, bool) {
			value, ok := t.Params.Get(name)
			if !ok {
				return 0, false
			}
			return a.at(value), true
		})
	}
	for k, o := range v.Objectives() {
		var results []float64
		for _, t := range ranked {
			results = append(results, v.Values(t)[k])
		}
		low, high := span(results)
		s := newScale(low, high, 0, 1, false)
		add(o.Metric, s.ticks(), func(t *tune.Trial) (float64, bool) { return s.at(v.Values(t)[k]), true })
	}
	// The best are drawn last, so that they are on top.
	for i := len(ranked) - 1; i >= 0; i-- {
		t := ranked[i]
		var path strings.Builder
		for _, c := range columns {
			// A parameter that the trial does not have is passed by below its axis.
			y := p.Bottom + 14
			if at, ok := c.place(t); ok {
				y = p.Bottom - at*(p.Bottom-p.Top)
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[path.Len() == 0], c.x, y)
		}
		p.Lines = append(p.Lines, line{Path: path.String(), Colour: shade(place(i, len(ranked))), Faint: i >= bold,
			Name: goalName(v, t)})
	}
	return p
}
