package tune

import (
	"errors"
	"math/rand/v2"
)

// A Suggester proposes the parameters of a new trial.
//
// It is a pure function of the view, the number and rng: the same log gives the
// same proposals. It may keep caches of what it computed from the view. rng is
// derived from the study's seed and the trial's number. The view has running trials,
// too.
//
// The proposal must contain v.Fixed(number), which Space.Fill does. The study
// checks the proposal against the space. Reports wait while Suggest runs, so it
// should take milliseconds. A study calls it from one goroutine at a time; one
// Suggester serves one study.
type Suggester interface {
	// Suggest returns full parameters, ErrExhausted if it will propose no more, or ErrWait
	// if it proposes none before another event. Any other error ends the study.
	Suggest(v View, number int, rng *rand.Rand) (Params, error)
}

// logged proposes what the log has.
type logged struct {
	params Params
	err    error
}

// Suggest implements Suggester.
func (l logged) Suggest(View, int, *rand.Rand) (Params, error) { return l.params, l.err }

var (
	// ErrExhausted is returned by a Suggester that will propose nothing more.
	ErrExhausted = errors.New("tune: no more parameters to propose")
	// ErrWait is returned by a Suggester that proposes nothing before another report or
	// end of a trial, and by Study.TryAsk when there is no trial to run before that.
	ErrWait = errors.New("tune: nothing to run before another result")
)

// Random proposes parameters at random. It is the default Suggester.
type Random struct{}

// Suggest implements Suggester.
func (Random) Suggest(v View, number int, rng *rand.Rand) (Params, error) {
	return v.Space().Sample(rng, v.Fixed(number))
}
