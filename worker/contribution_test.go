package worker

import (
	"testing"

	"github.com/paragon-train/paragon/kvstore"
)

// madePusher is what a fakeWeigher was asked for.
type madePusher struct {
	kvstore.Pusher
	step    kvstore.PushOptions
	counted bool
	plain   bool
}

type fakeWeigher struct{ made int }

func (w *fakeWeigher) Weighted(weight float32, counted bool) kvstore.Pusher {
	w.made++
	return &madePusher{step: kvstore.PushOptions{Weight: weight}, counted: counted, plain: true}
}

func (w *fakeWeigher) Step(step kvstore.PushOptions) kvstore.Pusher {
	w.made++
	return &madePusher{step: step, counted: step.Counted}
}

// A step that weighs what the one before did makes no pusher, and one that weighs something else
// does not push with the old weight.
func TestPushersStayWhileTheWeightDoes(t *testing.T) {
	w := &fakeWeigher{}
	c := contribution{store: w}
	for _, step := range []struct {
		of       amount
		counting bool
		fresh    bool
	}{
		{amount{8, 8}, false, true}, {amount{8, 8}, false, false}, {amount{8, 3}, false, true},
		{amount{5, 3}, false, true}, {amount{5, 3}, true, true}, {amount{5, 3}, true, false},
	} {
		before := w.made
		c.counting = step.counting
		c.makeAgreeing(step.of.examples)
		c.weigh(step.of)
		if made := w.made > before; made != step.fresh {
			t.Errorf("%+v counted %t: pushers were made: %t, want %t", step.of, step.counting, made, step.fresh)
		}
		plain, measuring, agreeing := c.plain.(*madePusher), c.measuring.(*madePusher), c.agreeing.(*madePusher)
		switch weight := float32(step.of.weight); {
		case plain.step.Weight != weight || plain.counted != step.counting || plain.step.Measure:
			t.Errorf("%+v counted %t: gradients are pushed as %+v", step.of, step.counting, plain)
		case plain.plain != (step.of.weight == float64(step.of.examples)):
			t.Errorf("%+v: gradients are pushed as %+v, want the examples apart where they are not the weight", step.of, plain)
		case measuring.step.Weight != weight || !measuring.step.Measure || measuring.step.Examples != step.of.examples:
			t.Errorf("%+v: a measured step is pushed as %+v", step.of, measuring)
		case agreeing.step.Weight != float32(step.of.examples) || agreeing.counted:
			t.Errorf("%+v: the agreement is pushed as %+v, want the examples, and none counted", step.of, agreeing)
		}
	}
}
