package slots

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func allocator(t *testing.T, nodes ...Node) *Allocator {
	t.Helper()
	a, err := New(nodes...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustAcquire(t *testing.T, a *Allocator, r Request) *Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	g, err := a.Acquire(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var two = []Node{{Name: "a", CPUs: []int{0, 1, 2, 3}, GPUs: []string{"0", "1"}}, {Name: "b", CPUs: []int{4, 5}}}

func TestARequestGetsPartsOfSoManyNodes(t *testing.T) {
	for _, tc := range []struct {
		request Request
		want    []Part
	}{
		{Request{CPUs: 1}, []Part{{"b", []int{4}, nil}}},                                       // the node without GPUs
		{Request{CPUs: 3}, []Part{{"a", []int{0, 1, 2}, nil}}},                                 // the one that has enough
		{Request{CPUs: 1, GPUs: 1}, []Part{{"a", []int{0}, []string{"0"}}}},                    // the one that has any
		{Request{Hosts: 2, CPUs: 2}, []Part{{"a", []int{0, 1}, nil}, {"b", []int{4, 5}, nil}}}, // in their order
		{Request{}, []Part{{"b", nil, nil}}},
	} {
		a := allocator(t, two...)
		g := mustAcquire(t, a, tc.request)
		if !reflect.DeepEqual(g.Parts, tc.want) {
			t.Errorf("%v gets %+v, want %+v", tc.request, g.Parts, tc.want)
		}
		g.Release()
		g.Release()
		for _, u := range a.Usage() {
			if u.UsedCPUs != 0 || u.UsedGPUs != 0 {
				t.Errorf("%v: after it is given back %+v is used", tc.request, u)
			}
		}
	}
}

func TestWhatNeverFitsIsAnErrorThatNamesTheNodes(t *testing.T) {
	a := allocator(t, two...)
	if err := a.Fits(Request{Workers: 9, CPUs: 4}); err != nil {
		t.Errorf("a node without a number of slots runs as many workers as its processors allow: %v", err)
	}
	for _, tc := range []struct {
		request Request
		want    string
	}{
		{Request{CPUs: 5}, "it needs 5 CPUs and 0 GPUs, which does not fit: a has 4 CPUs and 2 GPUs, b has 2 CPUs and 0 GPUs"},
		{Request{Hosts: 2, GPUs: 1}, "0 CPUs and 1 GPU on each of 2 nodes"},
		{Request{Hosts: 3}, "on each of 3 nodes"},
		{Request{CPUs: -1}, "want no number below 0"},
	} {
		if err := a.Fits(tc.request); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: got %v, want an error with %q", tc.request, err, tc.want)
		}
	}
	g := mustAcquire(t, a, Request{CPUs: 4})
	if err := a.Fits(Request{CPUs: 4}); err != nil {
		t.Errorf("what fits once others are through: %v", err)
	}
	g.Release()
	for _, n := range []Node{{}, {Name: "a"}, {Name: "c", CPUs: []int{1, 1}}, {Name: "c", GPUs: []string{"0", "0"}}} {
		if err := a.Add(n); err == nil {
			t.Errorf("node %+v is taken", n)
		}
	}
}

func TestANodeRunsNoMoreWorkersThanItHasSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := allocator(t, Node{Name: "a", CPUs: []int{0, 1, 2, 3}, Slots: 3})
		if err := a.Fits(Request{Workers: 4}); err == nil || !strings.Contains(err.Error(), "it needs 4 workers, 0 CPUs and 0 GPUs, which does not fit: a has 3 slots, 4 CPUs and 0 GPUs") {
			t.Errorf("got %v, want an error that names the slots", err)
		}
		first := mustAcquire(t, a, Request{Workers: 2, CPUs: 1})
		if u := a.Usage()[0]; u.Slots != 3 || u.UsedSlots != 2 || u.Fit(Request{Workers: 1, CPUs: 1}) != 3 {
			t.Errorf("got %+v with room for %d, want 2 of 3 slots in use and room for 3 in all", u, u.Fit(Request{Workers: 1, CPUs: 1}))
		}
		served := false
		var all sync.WaitGroup
		all.Go(func() {
			g := mustAcquire(t, a, Request{Workers: 2, CPUs: 1})
			served = true
			g.Release()
		})
		synctest.Wait()
		if served {
			t.Error("4 workers run in 3 slots")
		}
		first.Release()
		all.Wait()
		if u := a.Usage()[0]; !served || u.UsedSlots != 0 {
			t.Errorf("served %v, %+v, want the second request served and no slot in use", served, u)
		}
	})
}

func TestALargeRequestIsNotPassedBySmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := allocator(t, Node{Name: "a", CPUs: []int{0, 1}})
		first := mustAcquire(t, a, Request{CPUs: 1})
		var served []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i, cpus := range []int{2, 1} {
			all.Go(func() {
				g, err := a.Acquire(t.Context(), Request{CPUs: cpus})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				served = append(served, cpus)
				mu.Unlock()
				g.Release()
			})
			synctest.Wait()
			if len(served) > 0 {
				t.Errorf("after request %d: served %v, want none while the large one waits", i, served)
			}
		}
		first.Release()
		all.Wait()
		if want := []int{2, 1}; !reflect.DeepEqual(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
	})
}

func TestWhoGivesUpWaitingLetsOthersOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := allocator(t, Node{Name: "a", CPUs: []int{0, 1}})
		first := mustAcquire(t, a, Request{CPUs: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			_, err := a.Acquire(ctx, Request{CPUs: 2})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for 2 CPUs and 0 GPUs with 0 requests ahead in the queue; a has 2 CPUs") {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		second := mustAcquire(t, a, Request{CPUs: 1})
		all.Wait()
		second.Release()
		first.Release()
	})
}

func TestANodeThatLeavesGivesOutNothingMore(t *testing.T) {
	a := allocator(t, two...)
	g := mustAcquire(t, a, Request{CPUs: 1}) // of b
	if err := a.Drain("b"); err != nil {
		t.Fatal(err)
	}
	if u := a.Usage(); len(u) != 2 || !u[1].Leaving {
		t.Errorf("usage %+v, want b to be leaving", u)
	}
	if h := mustAcquire(t, a, Request{CPUs: 1}); h.Parts[0].Node != "a" {
		t.Errorf("got %+v, want a part of a", h.Parts)
	}
	g.Release()
	if u := a.Usage(); len(u) != 1 {
		t.Errorf("usage %+v, want b to be gone", u)
	}
	if err := a.Drain("b"); err == nil || !strings.Contains(err.Error(), "the nodes are a") {
		t.Errorf("of a node that is not there: %v", err)
	}
}

func TestALostNodeEndsItsGrants(t *testing.T) {
	a := allocator(t, two...)
	both, of := mustAcquire(t, a, Request{Hosts: 2, CPUs: 1}), mustAcquire(t, a, Request{CPUs: 3})
	if err := a.Lose("b"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-both.Lost():
	default:
		t.Errorf("the grant of %+v does not know that b has gone", both.Parts)
	}
	if both.Gone() != "b" || of.Gone() != "" {
		t.Errorf("gone are %q and %q, want b and nothing", both.Gone(), of.Gone())
	}
	if err := a.Add(two[1]); err != nil {
		t.Fatal(err)
	}
	both.Release()
	of.Release()
	for _, u := range a.Usage() {
		if u.UsedCPUs != 0 {
			t.Errorf("%+v is in use", u)
		}
	}
}

func TestNothingIsGivenTwice(t *testing.T) {
	a := allocator(t, Node{Name: "a", CPUs: []int{0, 1, 2, 3, 4}, GPUs: []string{"0", "1"}}, Node{Name: "b", CPUs: []int{0, 1, 2}, GPUs: []string{"2"}}, Node{Name: "c", CPUs: []int{7}})
	var mu sync.Mutex
	held := make(map[any]bool)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 200 {
				r := Request{Hosts: 1 + rng.IntN(2), CPUs: rng.IntN(4), GPUs: rng.IntN(2)}
				if a.Fits(r) != nil {
					continue
				}
				g, err := a.Acquire(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				var mine []any
				for _, p := range g.Parts {
					if len(p.CPUs) != r.CPUs || len(p.GPUs) != r.GPUs {
						t.Errorf("%v gets %+v", r, p)
					}
					for _, c := range p.CPUs {
						mine = append(mine, [2]any{p.Node, c})
					}
					for _, c := range p.GPUs {
						mine = append(mine, c)
					}
				}
				for _, x := range mine {
					if held[x] {
						t.Errorf("%v is given out twice", x)
					}
					held[x] = true
				}
				mu.Unlock()
				mu.Lock()
				for _, x := range mine {
					delete(held, x)
				}
				mu.Unlock()
				g.Release()
			}
		})
	}
	all.Wait()
	for _, u := range a.Usage() {
		if u.UsedCPUs != 0 || u.UsedGPUs != 0 {
			t.Errorf("at the end %+v is in use", u)
		}
	}
}
