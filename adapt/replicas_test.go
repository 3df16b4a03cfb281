package adapt

import (
	"math"
	"strings"
	"testing"
)

// list gives goodputs by number of replicas, from 1.
func list(g ...float64) func(int) float64 {
	return func(n int) float64 {
		if n < 1 || n > len(g) {
			return 0
		}
		return g[n-1]
	}
}

func TestAReplicaIsWishedForWhereItPays(t *testing.T) {
	for _, tc := range []struct {
		name   string
		choice ReplicaChoice
		want   int
		reason string
	}{
		{"linear", ReplicaChoice{Present: 1, Most: 4, Goodput: list(100, 200, 300, 400)}, 2, "goodput 200 instead of 100 examples/s (+100 %) with 2 instead of 1 replicas"},
		{"linear, explored", ReplicaChoice{Present: 1, Most: 4, Explored: 4, Goodput: list(100, 200, 300, 400)}, 4, "with 4"},
		{"one more adds 6 %", ReplicaChoice{Present: 2, Most: 4, Goodput: list(100, 180, 190, 192)}, 2, "with 3 replicas the goodput would be 190 instead of 180 examples/s (+6 %), not worth a change"},
		{"one more adds 8 %", ReplicaChoice{Present: 2, Most: 4, Goodput: list(100, 180, 195, 197)}, 3, "with 3"},
		{"over a dip, as on a second host", ReplicaChoice{Present: 2, Most: 4, Goodput: list(100, 200, 190, 330)}, 4, "with 4"},
		{"it adds nothing", ReplicaChoice{Present: 3, Most: 4, Goodput: list(100, 180, 181, 181)}, 2, "with 2 instead of 3"},
		{"it adds 4 %: neither more nor fewer", ReplicaChoice{Present: 3, Most: 4, Goodput: list(100, 180, 187.5, 190)}, 3, "not worth a change"},
		{"one more adds 7.1 %", ReplicaChoice{Present: 1, Most: 2, Goodput: list(1000, 1071)}, 2, "+7 %"},
		{"one more adds 6.9 %", ReplicaChoice{Present: 1, Most: 2, Goodput: list(1000, 1069)}, 1, "not worth a change"},
		{"two more add 12.1 %", ReplicaChoice{Present: 2, Most: 4, Goodput: list(900, 1000, 1060, 1121)}, 4, "+12 %"},
		{"two more add 11.9 %", ReplicaChoice{Present: 2, Most: 4, Goodput: list(900, 1000, 1060, 1119)}, 2, "not worth a change"},
		{"the last one added 2.9 %", ReplicaChoice{Present: 2, Most: 2, Goodput: list(971, 1000)}, 1, "-3 %"},
		{"the last one added 3.1 %", ReplicaChoice{Present: 2, Most: 2, Goodput: list(969, 1000)}, 2, "goodput 1000 examples/s with the maximum number of replicas"},
		{"a tenth of 10 minutes", ReplicaChoice{Present: 1, Most: 2, ChangeSeconds: 60, Goodput: list(1000, 1171)}, 2, "+17 %"},
		{"more than a tenth of 10 minutes", ReplicaChoice{Present: 1, Most: 2, ChangeSeconds: 61, Goodput: list(1000, 1171)}, 1, "not worth a change"},
		{"a tenth of an hour", ReplicaChoice{Present: 1, Most: 2, ChangeSeconds: 360, Remaining: 1e6, Goodput: list(1000, 1171)}, 2, "+17 %"},
		{"more than a tenth of an hour", ReplicaChoice{Present: 1, Most: 2, ChangeSeconds: 366, Remaining: 1e6, Goodput: list(1000, 1171)}, 1, "not worth a change"},
		{"twice as many as explored", ReplicaChoice{Present: 1, Most: 8, Explored: 3, Goodput: list(100, 200, 300, 400, 500, 600, 700, 800)}, 6, "with 6 instead of 1"},
		{"at the least", ReplicaChoice{Present: 2, Least: 2, Most: 2, Goodput: list(100, 100)}, 2, "the maximum number"},
		{"almost as good as another number", ReplicaChoice{Present: 2, Most: 4, Goodput: list(1000, 1000, 1200, 1249)}, 3, "with 3 instead of 2"},
		{"the cost of the change", ReplicaChoice{Present: 1, Most: 2, ChangeSeconds: 30, Remaining: 100, Goodput: list(100, 130)}, 1, "not worth a change"},
		{"spread over more time", ReplicaChoice{Present: 1, Most: 2, ChangeSeconds: 30, Remaining: 1000, Goodput: list(100, 130)}, 2, "+30 %"},
		{"over 10 minutes where that is not known", ReplicaChoice{Present: 1, Most: 2, ChangeSeconds: 60, Goodput: list(100, 118)}, 2, "+18 %"},
		{"almost at the end", ReplicaChoice{Present: 1, Most: 4, ChangeSeconds: 2, Remaining: 1, Goodput: list(100, 200, 300, 400)}, 1, "not worth a change"},
		{"as many as may be", ReplicaChoice{Present: 2, Most: 2, Goodput: list(100, 200, 300)}, 2, "the maximum number of replicas"},
		{"too many", ReplicaChoice{Present: 5, Least: 2, Most: 3, Goodput: list(100, 200, 300)}, 3, "5 replicas are present, and the limits are 2 and 3"},
		{"too few", ReplicaChoice{Present: 1, Least: 2, Most: 3, Goodput: list()}, 2, "1 replicas are present"},
		{"nothing is known", ReplicaChoice{Present: 1, Most: 4, Goodput: list()}, 1, "not known yet"},
		{"numbers that are none", ReplicaChoice{Present: 1, Most: 4, Goodput: list(100, math.NaN(), math.Inf(1), -3)}, 1, "none is known with 2"},
		{"the least is kept", ReplicaChoice{Present: 3, Least: 3, Most: 4, Goodput: list(100, 100, 100, 100)}, 3, "not worth a change"},
	} {
		got, reason, err := tc.choice.Wish()
		if err != nil || got != tc.want || !strings.Contains(reason, tc.reason) {
			t.Errorf("%s: got %d, %q, %v; want %d with %q", tc.name, got, reason, err, tc.want, tc.reason)
		}
	}
}

// A wish that was carried out is not taken back with the same goodputs, whatever they are.
func TestAWishSettles(t *testing.T) {
	for peak := 1.0; peak < 9; peak += 0.37 {
		for _, flat := range []float64{0.01, 0.03, 0.1, 0.5} {
			g := func(n int) float64 { return 100 * peak * float64(n) / (peak + float64(n)*(1+flat*float64(n))) }
			c := ReplicaChoice{Present: 1, Most: 16, Goodput: g, ChangeSeconds: 3}
			changes := 0
			for {
				wish, _, err := c.Wish()
				if err != nil {
					t.Fatal(err)
				}
				if wish == c.Present {
					break
				}
				if changes++; changes > 5 {
					t.Fatalf("peak %g, flat %g: %d changes, and it still wishes for %d instead of %d", peak, flat, changes, wish, c.Present)
				}
				c.Present, c.Explored = wish, max(c.Explored, wish)
			}
		}
	}
}

func TestChoicesOfReplicasAreChecked(t *testing.T) {
	for name, c := range map[string]ReplicaChoice{
		"Goodput is nil":   {Present: 1, Most: 1},
		"0 replicas":       {Most: 1, Goodput: list(1)},
		"2 and 1":          {Present: 1, Least: 2, Most: 1, Goodput: list(1)},
		"0 and 0":          {Present: 1, Goodput: list(1)},
		"costs -1 s":       {Present: 1, Most: 1, ChangeSeconds: -1, Goodput: list(1)},
		"costs NaN s":      {Present: 1, Most: 1, ChangeSeconds: math.NaN(), Goodput: list(1)},
		"and NaN s remain": {Present: 1, Most: 1, Remaining: math.NaN(), Goodput: list(1)},
	} {
		if _, _, err := c.Wish(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}
