// Package optim holds the rules by which a gradient changes a parameter, and
// the schedules by which the learning rate changes over the steps.
//
// The rules are sgd (with momentum), nag, adam, adamw, adagrad, rmsprop, ftrl,
// lars and lamb; Config has their numbers, and each is checked against its
// paper's formula. A training job names its rule in kvstore's SetOptimizer or in
// worker.Config, and the servers apply it. A program that trains by itself can
// call it, too.
//
// A Config names a rule and its numbers. It is plain data: it is validated,
// printed, compared, saved in checkpoints and sent to servers as JSON, so that
// no code has to travel. New turns it into an Optimizer, which is immutable and
// holds nothing about any key. What a rule remembers of a key (its momentum,
// its second moment) lives in a State that belongs to whoever owns the value.
//
// One update of one key takes a Pass, which fixes everything that is the same
// for all elements of the key: the step, the learning rate of that step, the
// key's multipliers, the factor applied to the gradient.
//
//	opt, err := optim.New(optim.Config{Name: "adam", LearningRate: 0.001})
//	state := opt.NewState(len(value))
//	factors := opt.Factors("layer1.weight")
//	for step := uint64(0); ; step++ {
//		// sum the gradients of the step into grad
//		err := opt.At(step, 1, factors).Update(value, grad, state)
//	}
//
// Steps count from 0; the t of the papers is step+1.
//
// Three calls are for jobs whose batch size, and with it the worth of a step,
// changes. AtProgress reads the schedule at a number that need not be whole.
// Pass.WithFactor multiplies the learning rate in one update alone.
// Pass.WithGain tells a rule with a second moment how much less noise the
// gradient has.
//
// The gradient that a rule sees is, element by element,
//
//	g = clip(Rescale·scale·grad, ±ClipGradient)
//
// scaled down so that its norm over the key is at most ClipNorm, or its norm
// over all keys of the step at most ClipGlobalNorm, where these are set. Weight decay comes after that and is never clipped.
//
// # Range
//
// Rules that square the gradient clip its elements to ±2⁶⁰, whose square a
// float32 can hold; as they divide by the root of such squares, the
// step is that of the formula. Sums of squares stop at the largest float32. So a
// finite gradient, however large, leaves value and state finite, unless the
// step itself is out of range (sgd, nag, test). One that is not finite makes
// the value NaN.
//
// # Shards
//
// All rules but lars and lamb work element by element: a key that is cut into
// shards, each with its own State, changes bit for bit as the whole key does.
// lars, lamb and any rule with ClipNorm need norms over the whole key, and
// Config.WholeKeys reports this, so that a plan can leave such keys uncut. A
// caller that must cut them all the same adds up the partial sums of the
// shards first: see Pass.GradientSquares and Pass.Norms.
//
// # Rows
//
// Pass.UpdateRows changes the named rows of a table and reads and writes
// nothing of the others. This is the lazy form: a row that got no gradient in
// a step gets no weight decay, keeps its momentum as it is, and its moments do
// not fade. Adam's bias correction goes by the step of the table, not by how
// often the row was touched.
//
// # Bits
//
// The loops over elements give the same bits whatever vector instructions a
// machine has: one rate and one gradient change copies of a shard alike, on
// servers of different kinds.
//
// An Optimizer may be used from several goroutines at once. Two updates of one
// value or State may not run at once.
package optim
