package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/tune"
)

// maxCategories is how many values of a choice an axis shows as places of their own.
const maxCategories = 40

// parallel is a picture of parallel coordinates: an axis for each parameter, the last one for the
// metric, a line for each trial.
type parallel struct {
	Width, Height, Top, Bottom float64
	Axes                       []parallelAxis
	Lines                      []line
}

type parallelAxis struct {
	X    float64
	Name string
	// Ticks have in At where they are on the page.
	Ticks []tick
}

// An axis maps the values of one parameter to [0, 1].
type axis struct {
	at func(value any) float64
	// ticks have in At where they are on the axis, from 0 to 1.
	ticks []tick
}

// newAxis makes the axis of a parameter from the space, or for one that the space does not have
// from its values. ok is false if there are no values.
func newAxis(space tune.Space, trials []*tune.Trial, name string) (axis, bool) {
	var numbers []float64
	var words []string
	seen := make(map[string]bool)
	for _, t := range trials {
		value, ok := t.Params.Get(name)
		if !ok {
			continue
		}
		if x, ok := floatOf(value); ok {
			numbers = append(numbers, x)
		}
		if w := valueText(value); !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return axis{}, false
	}
	p, _ := space.Param(name)
	if len(p.Values) > 0 && len(p.Values) <= maxCategories {
		words = words[:0]
		for _, value := range p.Values {
			words = append(words, valueText(value))
		}
		return categories(words), true
	}
	allNumbers := true
	for _, t := range trials {
		if value, ok := t.Params.Get(name); ok {
			_, is := floatOf(value)
			allNumbers = allNumbers && is
		}
	}
	if !allNumbers {
		slices.Sort(words)
		return categories(words[:min(len(words), maxCategories)]), true
	}
	low, high := span(numbers)
	if p.Kind == tune.KindReal || p.Kind == tune.KindInt {
		low, high = p.Low, p.High
	}
	s := newScale(low, high, 0, 1, p.Spec.Log || p.Kind == tune.KindLogNormal)
	a := axis{at: func(value any) float64 { x, _ := floatOf(value); return s.at(x) }, ticks: s.ticks()}
	if p.Kind == tune.KindInt {
		a.ticks = s.wholeTicks()
	}
	return a, true
}

// categories is an axis with a place for each word; others are put at its end.
func categories(words []string) axis {
	index := make(map[string]int)
	var a axis
	for i, w := range words {
		index[w] = i
		a.ticks = append(a.ticks, tick{At: (float64(i) + 0.5) / float64(len(words)), Text: strings.Trim(w, `"`)})
	}
	a.at = func(value any) float64 {
		i, ok := index[valueText(value)]
		if !ok {
			return 1
		}
		return (float64(i) + 0.5) / float64(len(words))
	}
	return a
}

func floatOf(value any) (float64, bool) {
	switch x := value.(type) {
	case float64:
		return x, true
	case int64:
		return float64(x), true
	}
	return 0, false
}

// newParallel has an axis for each of the parameters and each objective. The first trials, as many
// as bold says, stand out.
func newParallel(v tune.View, ranked []*tune.Trial, params []string, bold int) parallel {
	const between, margin = 150.0, 70.0
	p := parallel{Height: 340, Top: 34, Bottom: 310}
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
