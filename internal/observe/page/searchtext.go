package page

import (
	"fmt"
	"math"
	"strconv"
)

// SearchText is a parameter's value as people read it.
func SearchText(value any) string {
	switch x := value.(type) {
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'g', preciseDigits, 64)
	}
	return fmt.Sprint(value)
}

// Thin leaves at most most points of a curve: the first, the last, and of each stretch between them
// the lowest and the highest, so the best one stays.
func (c SearchCurve) Thin(most int) SearchCurve {
	n := len(c.Step)
	if n <= most || most < 4 {
		return c
	}
	t := SearchCurve{Trial: c.Trial, Metric: c.Metric, Forecast: c.Forecast}
	add := func(i int) {
		if k := len(t.Step); i >= 0 && (k == 0 || t.Step[k-1] < c.Step[i]) {
			t.Step, t.Value = append(t.Step, c.Step[i]), append(t.Value, c.Value[i])
		}
	}
	add(0)
	stretches := (most - 2) / 2
	for s := range stretches {
		low, high := -1, -1
		for i := 1 + s*(n-2)/stretches; i < 1+(s+1)*(n-2)/stretches; i++ {
			switch v := c.Value[i]; {
			case math.IsNaN(float64(v)):
			case low < 0:
				low, high = i, i
			case v < c.Value[low]:
				low = i
			case v > c.Value[high]:
				high = i
			}
		}
		add(min(low, high))
		add(max(low, high))
	}
	add(n - 1)
	return t
}
