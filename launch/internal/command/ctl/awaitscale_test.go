package ctl

import (
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A job that has the workers when it is asked, and has lost one when its status is read, is asked
// again, once.
func TestScaleWaitAsksAgainAfterALoss(t *testing.T) {
	for name, c := range map[string]struct {
		// states are those that the status has, one after the other.
		states []string

		asked int // how often workers are asked for
		fails bool
	}{
		"reached":                    {[]string{control.ScaleUnderWay, control.ScaleReached}, 1, false},
		"lost at once":               {[]string{control.ScaleTooFew, control.ScaleUnderWay, control.ScaleReached}, 2, false},
		"lost at once, and for good": {[]string{control.ScaleTooFew, control.ScaleTooFew}, 2, true},
		"too few after it was tried": {[]string{control.ScaleUnderWay, control.ScaleTooFew}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			err := awaitScale(func(q control.Request, answer control.Answer) error {
				switch a := answer.(type) {
				case *control.Done:
					asked++
					a.Scale = uint64(asked)
				case *control.Status:
					a.Phase, a.Scale = control.Running, &control.Scale{Number: uint64(asked), Workers: 4, Present: 3, State: c.states[0], Reason: "worker 1 lost"}
					c.states = c.states[1:]
				}
				return nil
			}, "j", control.Request{Op: control.OpScale, Workers: 4})
			if (err != nil) != c.fails || asked != c.asked || len(c.states) > 0 {
				t.Errorf("asked %d times, want %d; %q left; error %v, want one: %t", asked, c.asked, c.states, err, c.fails)
			}
		})
	}
}
