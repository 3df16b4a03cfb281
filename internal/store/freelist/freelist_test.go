package freelist

import (
	"slices"
	"testing"
)

func TestValuesComeBackOnce(t *testing.T) {
	var l List[int]
	if x := l.Take(); x != nil {
		t.Errorf("an empty list: got %d, want none", *x)
	}
	a, b, c := new(int), new(int), new(int)
	l.Keep(a)
	l.KeepMany([]*int{b, c})
	if x := l.Take(); x != c {
		t.Error("got another value than the newest")
	}
	if got := l.TakeMany(nil, 5); !slices.Equal(got, []*int{a, b}) {
		t.Errorf("got %d values, want the two that are left", len(got))
	}
	if got := l.TakeMany([]*int{a}, 1); len(got) != 1 || l.Take() != nil {
		t.Error("an empty list gave a value")
	}
}

func TestNoMoreThanMostAreKept(t *testing.T) {
	var l List[int]
	l.KeepMany(make([]*int, Most-1))
	last := new(int)
	l.Keep(last)
	l.Keep(new(int))
	l.KeepMany([]*int{new(int), new(int)})
	if got := l.TakeMany(nil, 2*Most); len(got) != Most || got[Most-1] != last {
		t.Errorf("got %d values, want %d", len(got), Most)
	}
}

func TestAListHoldsNothingThatItGave(t *testing.T) {
	var l List[int]
	l.KeepMany([]*int{new(int), new(int), new(int)})
	l.Take()
	l.TakeMany(nil, 1)
	if rest := l.values[1:3]; rest[0] != nil || rest[1] != nil {
		t.Error("the list holds a value that it gave")
	}
}
