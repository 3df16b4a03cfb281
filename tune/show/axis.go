package show

import (
	"slices"
	"strings"

	"github.com/paragon-train/paragon/tune"
)

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
		// The space's own values stand in its order, also those that no trial had.
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

// floatOf is a value as a number. ok is false for texts and bools.
func floatOf(value any) (float64, bool) {
	switch x := value.(type) {
	case float64:
		return x, true
	case int64:
		return float64(x), true
	}
	return 0, false
}

// maxCategories is how many values of a choice an axis shows as places of their own.
const maxCategories = 40
