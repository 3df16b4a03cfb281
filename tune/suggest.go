package tune

import (
	"errors"
	"math/rand/v2"
)

// A Suggester proposes the parameters of a new trial.
//
// It is a pure function of what the view shows, of the number and of rng: the
// same log gives the same proposals. (It may keep caches, and look at the view
// only for what is new in them.) rng is derived from the study's seed and the
// trial's number. Running trials are in the view too.
//
// What v.Fixed(number) has must be in the proposal; Space.Fill sees to it. The
// study checks the proposal against the space. Suggest runs while reports wait, so
// it should take milliseconds. A study calls it from one goroutine at a time; one
// Suggester serves one study.
type Suggester interface {
	// Suggest returns full parameters, ErrExhausted if there will be no more, or
	// ErrWait if there can be none before another event. Any other error ends the study.
	Suggest(v View, number int, rng *rand.Rand) (Params, error)
}

// Recorded is a Suggester whose proposals cannot be derived again, as those of a program of the user's: Replay takes them
// from the log.
type Recorded interface {
	Suggester
	// Recorded says whether it is so.
	Recorded() bool
}

// logged proposes what the log says.
type logged struct {
	params Params
	err    error
}

// Suggest implements Suggester.
func (l logged) Suggest(View, int, *rand.Rand) (Params, error) { return l.params, l.err }

var (
	// ErrExhausted is a Suggester's: it will propose nothing more.
	ErrExhausted = errors.New("tune: no more parameters to propose")
	// ErrWait is a Suggester's: it proposes nothing before another report or end of
	// a trial. Of Study.TryAsk: there is no trial to run before that.
	ErrWait = errors.New("tune: nothing to run before another result")
)

// Random proposes parameters at random. It is the Suggester of a study that has
// no other.
type Random struct{}

// Suggest implements Suggester.
func (Random) Suggest(v View, number int, rng *rand.Rand) (Params, error) {
	return v.Space().Sample(rng, v.Fixed(number))
}
