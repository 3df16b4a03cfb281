package worker

import "github.com/paragon-train/paragon/kvstore"

// An amount is of what gradients are the sum: some examples, and what they weigh in a mean. The
// weight is the number of their labels that count, or else their own number, and with weights of
// classes the sum of those of their labels. With several labels for an example it may be far the
// larger of the two, and with labels that are ignored the smaller.
type amount struct {
	examples int
	weight   float64
}

func (a amount) plus(b amount) amount { return amount{a.examples + b.examples, a.weight + b.weight} }

// A weigher makes pushers whose contributions have a weight. A kvstore.Store is one.
type weigher interface {
	Weighted(weight float32, counted bool) kvstore.Pusher
	Step(kvstore.PushOptions) kvstore.Pusher
}

// A contribution makes the pushers of a step, which carry what this worker's part in it weighs.
//
// Most steps weigh what the one before did, so the pushers stay until that changes: a step then
// allocates none.
type contribution struct {
	store weigher
	// counting says that the servers count the examples of the next steps as used.
	counting bool

	// amount and counted are what the pushers below were made for.
	amount  amount
	counted bool
	// plain pushes gradients, measuring is the same with a request for the norm of their mean.
	plain, measuring kvstore.Pusher

	// shared are the examples that agreeing was made for.
	shared int
	// agreeing pushes to the agreement's key. It weighs the examples of the step, since a
	// worker has its say also where no label counts.
	agreeing kvstore.Pusher
}

// makeAgreeing makes agreeing for a step of so many examples.
func (c *contribution) makeAgreeing(examples int) {
	if c.agreeing == nil || c.shared != examples {
		c.shared, c.agreeing = examples, c.store.Weighted(float32(examples), false)
	}
}

// weigh makes plain and measuring for a step of this amount.
func (c *contribution) weigh(of amount) {
	if c.plain != nil && c.amount == of && c.counted == c.counting {
		return
	}
	c.amount, c.counted = of, c.counting
	step := c.step(of)
	if c.plain = c.store.Step(step); of.weight == float64(of.examples) {
		c.plain = c.store.Weighted(step.Weight, c.counting)
	}
	step.Measure = true
	c.measuring = c.store.Step(step)
}

// step is what the store is told of a step of this amount.
func (c *contribution) step(of amount) kvstore.PushOptions {
	return kvstore.PushOptions{Weight: float32(of.weight), Examples: of.examples, Counted: c.counting}
}
