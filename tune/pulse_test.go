package tune

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A pulse has the newest step, and the first time at which the attempt was asked to return.
func TestAPulseKeepsWhatWasHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := newPulse()
		for i, ends := range []bool{false, true, true} {
			time.Sleep(time.Second)
			p.reported(3-i, ends)
		}
		now := p.now()
		if now.step != 3 || now.heard.Sub(begin) != 3*time.Second || now.told.Sub(begin) != 2*time.Second {
			t.Errorf("step %d, heard after %v, told after %v; want 3, 3s and 2s", now.step, now.heard.Sub(begin), now.told.Sub(begin))
		}
		<-p.beats
		select {
		case <-p.beats:
			t.Error("three signs of life are two tokens")
		default:
		}
	})
	var nobody *pulse
	nobody.beat()
	nobody.reported(1, true)
}

// How an attempt ended follows from why it was asked to return, and whether it did.
func TestTheEndingOfAnAttempt(t *testing.T) {
	silent := fmt.Errorf("%w for 1s", errSilent)
	failure := errors.New("no such file")
	for _, tc := range []struct {
		name       string
		cause, err error
		gone       bool
		want       Outcome
		class      Failure
	}{
		{"returned", nil, nil, false, Returned, ""},
		{"failed", nil, failure, false, Returned, UserCode},
		{"silent", silent, nil, false, Returned, Silent},
		{"silent and gone", silent, nil, true, Returned, Silent},
		{"interrupted", errOver, nil, false, Interrupted, ""},
		{"interrupted and gone", errOver, nil, true, Interrupted, Silent},
	} {
		outcome, err := ending(tc.cause, tc.err, tc.gone)
		class := Failure("")
		if err != nil {
			class = classOf(err)
		}
		if outcome != tc.want || class != tc.class {
			t.Errorf("%s: got %s, %q, want %s, %q", tc.name, outcome, class, tc.want, tc.class)
		}
	}
}
