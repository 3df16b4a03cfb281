package study

import (
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
)

// continues is the name of what, in a scheduler, has trials go on from checkpoints; "" if nothing
// does.
func continues(s tune.Scheduler) string {
	switch s := s.(type) {
	case *schedule.ASHA:
		if s.Rule == schedule.Promotion {
			return "promotion"
		}
	case *schedule.Hyperband:
		return "hyperband"
	case *schedule.PBT:
		return "pbt"
	case *schedule.Patience:
		return continues(s.Inner)
	case *schedule.Goodput:
		return continues(s.Inner)
	case schedule.Any:
		return firstThatContinues(s)
	case schedule.All:
		return firstThatContinues(s)
	}
	return ""
}

// firstThatContinues is continues of the first of several schedulers of which it is not "".
func firstThatContinues(all []tune.Scheduler) string {
	for _, s := range all {
		if name := continues(s); name != "" {
			return name
		}
	}
	return ""
}

// Warnings are what the search will do that its author may not want.
func (s *Study) Warnings() []string {
	name := continues(s.Config.Scheduler)
	// Each level of a fidelity begins anew.
	if s.Config.Fidelity != nil {
		return nil
	}
	if name == "" || s.Jobs.Checkpoints {
		return nil
	}
	return []string{"scheduler " + name + " has trials go on from checkpoints, and the command has no {checkpoint}: unless the program calls tune.Run " +
		"and keeps checkpoints itself, each such trial begins anew, and none takes over another's state"}
}
