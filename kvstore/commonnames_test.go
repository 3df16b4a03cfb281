package kvstore

import "testing"

// Workers that make the same calls since a change give them the same names, however many calls some
// of them made before.
func TestCallsCountFromTheLastChange(t *testing.T) {
	old, joiner := &commonNames{}, &commonNames{}
	for range 3 {
		old.next(barrierName)
	}
	old.next(loadName)
	old.begin(4)
	joiner.begin(4)
	for _, c := range []struct {
		call commonCall
		want string
	}{{barrierName, "barrier/4/1"}, {barrierName, "barrier/4/2"}, {loadName, "load/4/1"}, {broadcastName, "broadcast/4/1"}} {
		if a, b := old.next(c.call), joiner.next(c.call); a != c.want || b != c.want {
			t.Errorf("got %s and %s, want %s", a, b, c.want)
		}
	}
}
