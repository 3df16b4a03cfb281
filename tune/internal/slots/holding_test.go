package slots

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func mustTake(t *testing.T, h *Holding, node string, r Request, n, want int) []*Unit {
	t.Helper()
	got := h.Take(node, r, n)
	if len(got) != want {
		t.Fatalf("took %d of %d units of %s, want %d", len(got), n, node, want)
	}
	return got
}

func TestAHoldingGrowsAndShrinksByUnits(t *testing.T) {
	a := allocator(t, Node{Name: "a", CPUs: []int{0, 1, 2, 3}, GPUs: []string{"0", "1"}, Slots: 3}, Node{Name: "b", CPUs: []int{4, 5}})
	one := Request{Workers: 1, CPUs: 1}
	x, y := a.Open(), a.Open()
	mine := mustTake(t, x, "a", one, 2, 2)
	mustTake(t, y, "a", one, 2, 1) // the third slot
	if u := a.Usage()[0]; u.UsedSlots != 3 || u.UsedCPUs != 3 {
		t.Errorf("usage %+v, want 3 slots and 3 CPUs in use", u)
	}
	mustTake(t, x, "nowhere", one, 1, 0)

	changed := a.Changed()
	x.GiveBack(mine[0], one)
	select {
	case <-changed:
	default:
		t.Error("nobody is told of a free slot")
	}
	x.GiveBack(mine[0], one) // again: nothing
	got := mustTake(t, y, "a", one, 5, 1)
	if !slices.Equal(got[0].CPUs, mine[0].CPUs) {
		t.Errorf("got CPUs %v, want those given back, %v", got[0].CPUs, mine[0].CPUs)
	}
	if len(x.Units()) != 1 || len(y.Units()) != 2 {
		t.Errorf("%d and %d units are held, want 1 and 2", len(x.Units()), len(y.Units()))
	}
	y.Release()
	y.Release()
	mustTake(t, y, "a", one, 1, 0) // it is over
	x.Release()
	for _, u := range a.Usage() {
		if u.UsedSlots != 0 || u.UsedCPUs != 0 || u.UsedGPUs != 0 {
			t.Errorf("at the end %+v is in use", u)
		}
	}
}

func TestAHoldingLosesTheUnitsOfALostNode(t *testing.T) {
	a := allocator(t, two...)
	one := Request{Workers: 1, CPUs: 1, GPUs: 0}
	h := a.Open()
	mustTake(t, h, "a", one, 1, 1)
	lost := mustTake(t, h, "b", one, 1, 1)
	changed := a.Changed()
	if err := a.Lose("b"); err != nil {
		t.Fatal(err)
	}
	<-changed
	if u := h.Units(); len(u) != 1 || u[0].Node != "a" {
		t.Errorf("%v are held, want the unit of a alone", u)
	}
	if err := a.Add(two[1]); err != nil { // it is back, and its units are free
		t.Fatal(err)
	}
	h.GiveBack(lost[0], one)
	mustTake(t, h, "b", one, 3, 2)
	h.Release()
}

func TestADrainedNodeGoesWithTheLastUnit(t *testing.T) {
	a := allocator(t, two...)
	h, none := a.Open(), Request{Workers: 1}
	u := mustTake(t, h, "b", none, 1, 1) // of no CPU and no GPU: the node stays for it as well
	if err := a.Drain("b"); err != nil {
		t.Fatal(err)
	}
	mustTake(t, h, "b", none, 1, 0)
	if len(a.Usage()) != 2 {
		t.Errorf("usage %+v, want b to be there until its unit is given back", a.Usage())
	}
	h.GiveBack(u[0], none)
	if len(a.Usage()) != 1 {
		t.Errorf("usage %+v, want b to be gone", a.Usage())
	}
}

// Holdings and grants together never have a processor, a GPU or a slot twice.
func TestNoUnitIsHeldTwice(t *testing.T) {
	a := allocator(t, Node{Name: "a", CPUs: []int{0, 1, 2, 3, 4}, GPUs: []string{"0", "1", "2"}, Slots: 4}, Node{Name: "b", CPUs: []int{0, 1}, GPUs: []string{"3"}})
	var mu sync.Mutex
	held := make(map[any]bool)
	slots := 0 // of node a
	note := func(u *Unit, on bool) {
		mu.Lock()
		defer mu.Unlock()
		var all []any
		for _, c := range u.CPUs {
			all = append(all, [2]any{u.Node, c})
		}
		for _, g := range u.GPUs {
			all = append(all, g)
		}
		for _, x := range all {
			if held[x] == on {
				t.Errorf("%v of %v: held is %t already", x, u, on)
			}
			held[x] = on
		}
		if u.Node == "a" {
			if slots += 2*b2i(on) - 1; slots > 4 {
				t.Errorf("%d slots of a are in use, want at most 4", slots)
			}
		}
	}
	one := Request{Workers: 1, CPUs: 1, GPUs: 1}
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(worker)))
			h := a.Open()
			var mine []*Unit
			for range 300 {
				if len(mine) > 0 && rng.IntN(2) == 0 {
					u := mine[rng.IntN(len(mine))]
					mine = slices.DeleteFunc(mine, func(x *Unit) bool { return x == u })
					note(u, false)
					h.GiveBack(u, one)
					continue
				}
				for _, u := range h.Take([]string{"a", "b"}[rng.IntN(2)], one, 1+rng.IntN(3)) {
					note(u, true)
					mine = append(mine, u)
				}
			}
			for _, u := range mine {
				note(u, false)
			}
			h.Release()
		})
	}
	all.Wait()
	for _, u := range a.Usage() {
		if u.UsedSlots != 0 || u.UsedCPUs != 0 || u.UsedGPUs != 0 {
			t.Errorf("at the end %+v is in use", u)
		}
	}
}
