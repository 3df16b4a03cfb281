package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
)

// replicaColumns are what tables have of trials that are elastic jobs.
var replicaColumns = []string{"replicas", "restarts", "batch", "goodput"}

// elastic says whether any of the trials has been given replicas.
func elastic(trials []*tune.Trial) bool {
	return slices.ContainsFunc(trials, func(t *tune.Trial) bool { return len(t.Placement) > 0 || t.Training != tune.Training{} })
}

// replicaCells are a trial's values of replicaColumns; nil: not known.
func replicaCells(t *tune.Trial) []any {
	cells := []any{t.Placement.Replicas(), max(t.Attempts-1, 0), nil, nil}
	if t.Training.GlobalBatch > 0 {
		cells[2] = t.Training.GlobalBatch
	}
	if t.Training.Goodput > 0 {
		cells[3] = t.Training.Goodput
	}
	return cells
}

// stateText is a trial's state for a table. One that runs and has no replicas yet waits for them.
func stateText(t *tune.Trial, elastic bool) string {
	if elastic && t.State == tune.Running && len(t.Placement) == 0 {
		return "WAITING"
	}
	return strings.ToUpper(string(t.State))
}

// allocated says what a division of the nodes changed for the trial that is explained.
func (x *explainer) allocated(e tune.Event) {
	for i, s := range e.Shares {
		if s.Trial != x.trial {
			continue
		}
		had := x.has
		switch {
		case s.Pause:
			x.say(e, "to give up its %s at its next report: %s; decided because %s", plural.Of(had.Replicas(), "replica"), s.Rule, e.Rule)
			return
		case s.On.String() == had.String() && s.Rule == "":
		case s.On.String() == had.String():
			x.say(e, "keeps %s: %s; decided because %s", replicasText(s.On), s.Rule, e.Rule)
		case s.Rule == "":
			// The decision before was not carried out: the trial has other replicas
			// than it was given.
			x.say(e, "%s in place of %s; decided because %s", replicasText(s.On), replicasText(had), e.Rule)
		default:
			x.say(e, "%s in place of %s: %s; decided because %s", replicasText(s.On), replicasText(had), s.Rule, e.Rule)
		}
		if why := e.Jobs[i].Fixed; why != "" && why != x.fixed {
			x.say(e, "its replicas cannot change: %s", why)
			x.fixed = why
		}
		x.has = s.On
	}
}

// replicasText is "3 replicas (d1=2,d2=1)".
func replicasText(p jobs.Placement) string {
	if len(p) == 0 {
		return "no replicas"
	}
	return fmt.Sprintf("%s (%s)", plural.Of(p.Replicas(), "replica"), p)
}

// moved says which trials have other replicas now; "": none. s.mu is held.
func (s *Status) moved(e tune.Event) string {
	var parts []string
	for _, x := range e.Shares {
		if x.Pause || x.On.String() == s.placed[x.Trial] || len(x.On) == 0 && s.placed[x.Trial] == "" {
			continue
		}
		if s.placed == nil {
			s.placed = make(map[int]string)
		}
		s.placed[x.Trial] = x.On.String()
		parts = append(parts, fmt.Sprintf("trial %d %s", x.Trial, x.On))
	}
	if parts == nil {
		return ""
	}
	return fmt.Sprintf("%s: replicas: %s (%s)", s.title(), strings.Join(parts, "; "), e.Rule)
}
