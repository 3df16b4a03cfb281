package suggest

import "github.com/paragon-train/paragon/tune"

// SingleObjective implements tune.SingleObjective: TPE learns from one metric. MOTPE is for
// several.
func (t *TPE) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (g *GP) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (c *CMAES) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective: the program is told of one value of each trial.
func (e *External) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (l *Limit) SingleObjective() bool { return single(l.Suggester) }

// SingleObjective implements tune.SingleObjective.
func (r *Repeat) SingleObjective() bool { return single(r.Suggester) }

func single(s tune.Suggester) bool {
	one, ok := s.(tune.SingleObjective)
	return ok && one.SingleObjective()
}
