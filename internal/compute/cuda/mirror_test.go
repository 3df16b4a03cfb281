package cuda

import (
	"fmt"
	"testing"
)

// Between two gradients that travel together may lie the rest of a cache line, but no other
// gradient: that may be the user's already.
func TestOnlyNeighboursTravelTogether(t *testing.T) {
	a, b := &mirror{}, &mirror{}
	order := func(m *mirror) int { return map[*mirror]int{a: 0, b: 1}[m] }
	for _, c := range []struct {
		spans []span
		want  string
	}{
		{[]span{{a, 64, 4}, {a, 0, 60}}, "0+68"},
		{[]span{{a, 0, 64}, {a, 64, 64}, {a, 128, 4}}, "0+132"},
		{[]span{{a, 0, 64}, {a, 128, 64}}, "0+64 128+64"},
		{[]span{{a, 0, 4}, {a, 128, 4}, {a, 64, 4}}, "0+132"},
		{[]span{{a, 0, 64}, {b, 64, 64}}, "0+64 64+64"},
		{nil, ""},
	} {
		got := ""
		for i, p := range joined(c.spans, order) {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprintf("%d+%d", p.from, p.n)
		}
		if got != c.want {
			t.Errorf("%v joined is %q, want %q", c.spans, got, c.want)
		}
	}
}
