package suggest

import (
	"fmt"
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// Limit lets another suggester propose only while fewer than Max of the study's trials are pending
// or running, so that it learns from results before the next proposal, whatever the study's
// Parallel.
type Limit struct {
	Suggester tune.Suggester
	// Max is how many trials run at once; at least 1.
	Max int
	// Batch proposes Max trials at a time, and the next batch when all of them have ended.
	// Paused trials have not ended, unless nothing else is left to run: then only new trials
	// can let them continue.
	Batch bool
}

// Validate says what is wrong with the fields.
func (l *Limit) Validate() error {
	if l.Suggester == nil || l.Max < 1 {
		return fmt.Errorf("suggest: Limit: Suggester is %T and Max %d: want a suggester, and at least 1", l.Suggester, l.Max)
	}
	return validate(l.Suggester)
}

// Recorded implements tune.Recorded.
func (l *Limit) Recorded() bool { return recorded(l.Suggester) }

// validate asks a suggester what is wrong with it, if it can say.
func validate(s tune.Suggester) error {
	if c, ok := s.(interface{ Validate() error }); ok {
		return c.Validate()
	}
	return nil
}

func recorded(s tune.Suggester) bool {
	r, ok := s.(tune.Recorded)
	return ok && r.Recorded()
}

// Suggest implements tune.Suggester.
func (l *Limit) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	if err := l.Validate(); err != nil {
		return tune.Params{}, err
	}
	busy := v.Count(tune.Pending) + v.Count(tune.Running)
	switch {
	case !l.Batch && busy >= l.Max:
		return tune.Params{}, tune.ErrWait
	case l.Batch && busy > 0 && number%l.Max == 0:
		// A batch that is open goes on.
		for i := max(number-l.Max, 0); i < number; i++ {
			if t := v.Trial(i); t != nil && !t.State.Final() {
				return tune.Params{}, tune.ErrWait
			}
		}
	}
	return l.Suggester.Suggest(v, number, rng)
}
