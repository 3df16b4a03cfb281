package bridge

import (
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
)

// steps is a store whose Pushers only have their options.
type steps struct{ kvstore.Store }

type stepPusher struct {
	kvstore.Pusher
	options kvstore.PushOptions
}

func (steps) Step(o kvstore.PushOptions) kvstore.Pusher { return stepPusher{options: o} }

// Each key counts the examples since its last contribution, whatever is pushed beside it. One that
// failed is due the same again, and one that is of no examples counts none.
func TestEachKeyCountsWhatItIsDue(t *testing.T) {
	entries := []kvstore.Entry{{Key: "a"}, {Key: "b"}, {Key: "c"}}
	counts := []*keyCount{{}, {}, {}}
	all := errors.New("nothing was pushed")
	for i, tt := range []struct {
		used     uint64
		examples int
		err      error
		want     map[string]int
	}{
		{5, 0, nil, map[string]int{"a": 0, "b": 0, "c": 0}},
		{10, 1, kvstore.KeyErrors{{Key: "c", Err: kvstore.ErrSize}}, map[string]int{"a": 5, "b": 5, "c": 5}},
		{12, 0, all, map[string]int{"a": 2, "b": 2, "c": 7}},
		{12, 1, nil, map[string]int{"a": 2, "b": 2, "c": 7}},
		{15, 1, nil, map[string]int{"a": 3, "b": 3, "c": 3}},
		{15, 1, nil, map[string]int{"a": 0, "b": 0, "c": 0}},
	} {
		var mu sync.Mutex
		got := map[string]int{}
		c := contribution{store: steps{}, weight: 1, examples: tt.examples, sharing: true, used: tt.used}
		err := c.push(entries, counts, func(p kvstore.Pusher, entries []kvstore.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			o := p.(stepPusher).options
			if o.Counted != (o.Examples > 0) {
				t.Errorf("push %d: %d examples are counted: %v", i, o.Examples, o.Counted)
			}
			for _, e := range entries {
				got[e.Key] = o.Examples
			}
			return tt.err
		})
		if !maps.Equal(got, tt.want) || (err == nil) != (tt.err == nil) {
			t.Errorf("push %d with %d examples used: got %v and error %v, want %v", i, tt.used, got, err, tt.want)
		}
	}
}

// Without a sampler a contribution has the examples, the weight and the factor that Python gives.
func TestContributionsWithoutASampler(t *testing.T) {
	var turns turns
	by, err := turns.contribution(steps{}, 2, 7, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	err = by.push([]kvstore.Entry{{Key: "a"}}, []*keyCount{{}}, func(p kvstore.Pusher, _ []kvstore.Entry) error {
		o := p.(stepPusher).options
		if o.Weight != 2 || o.Examples != 7 || o.Counted || o.Factor == nil || o.Factor("a") != 0.5 {
			t.Errorf("got the options %+v, want weight 2, 7 examples that are not counted, and factor 0.5", o)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
