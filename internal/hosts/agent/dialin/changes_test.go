package dialin

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A reader takes a change while it is being sent, and others may come meanwhile: whatever happens, an
// agent of a name comes, goes, comes again, and the last that is heard of it is how it is.
func TestComingAndGoingAlternate(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		var q changeQueue
		there, heard := map[string]bool{}, map[string]bool{}
		hear := func(c Change) {
			if heard[c.Info.Name] == c.Joined {
				t.Fatalf("seed %d: a reader hears twice in a row that %s joined is %t", seed, c.Info.Name, c.Joined)
			}
			heard[c.Info.Name] = c.Joined
		}
		for range 40 {
			sending, ok := q.first()
			for range random.IntN(5) {
				name := fmt.Sprint("n", random.IntN(3))
				there[name] = !there[name]
				q.add(Change{Info{Name: name}, there[name]})
			}
			if ok && random.IntN(2) == 0 {
				hear(sending)
				q.sent()
			}
			if n := len(q.waiting); n > 7 {
				t.Fatalf("seed %d: %d changes of 3 names wait, want at most 7", seed, n)
			}
		}
		for c, ok := q.first(); ok; c, ok = q.first() {
			hear(c)
			q.sent()
		}
		for name := range there {
			if heard[name] != there[name] {
				t.Errorf("seed %d: %s is there: %t, and the last that was heard is %t", seed, name, there[name], heard[name])
			}
		}
	}
}
