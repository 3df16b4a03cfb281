package worker

import "time"

// A saveSchedule says when checkpoints are due, and counts those that could not be written.
//
// Invariant: pace and failures are the same on all workers, but on one that has just joined. They
// change by what all workers agreed on, and pace with the membership. Only rank 0 goes by a clock,
// and tells the others in the agreement of a step.
type saveSchedule struct {
	cfg CheckpointConfig
	// begun is when the last checkpoint was begun, or the run.
	begun time.Time
	pace  savePace
	// failures counts checkpoints in a row that failed, and again is when rank 0 asks for the
	// next try.
	failures int
	again    time.Time
}

// A savePace says who decides when the next checkpoint is due.
type savePace uint8

const (
	// savesByConfig: the numbers of steps and epochs of the configuration do.
	savesByConfig savePace = iota
	// savesLater: the last one failed, and rank 0 does, after a pause.
	savesLater
)

const (
	defaultFailures = 3
	defaultKeep     = 2
	// firstPause is the time between a checkpoint that failed and the next one while the run
	// goes on; it doubles up to longestPause.
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
	// lastPause is the same at the end of the run, where nothing else goes on meanwhile.
	lastPause = time.Second
)

// pause is the time to wait after so many failures in a row, beginning with first.
func pause(first time.Duration, failures int) time.Duration {
	for ; failures > 1 && first < longestPause; failures-- {
		first *= 2
	}
	return min(first, longestPause)
}

func newSaveSchedule(cfg CheckpointConfig, now time.Time) saveSchedule {
	if cfg.Keep == 0 {
		cfg.Keep = defaultKeep
	}
	if cfg.Failures == 0 {
		cfg.Failures = defaultFailures
	}
	cfg.EveryEpochs = max(cfg.EveryEpochs, 1)
	return saveSchedule{cfg: cfg, begun: now}
}

// due reports whether a save after so many steps in all is due.
func (s *saveSchedule) due(steps uint64) bool {
	return s.cfg.Dir != "" && s.pace == savesByConfig && s.falls(steps)
}

// falls reports whether one of every EverySteps falls on so many steps.
func (s *saveSchedule) falls(steps uint64) bool {
	return s.cfg.EverySteps > 0 && steps > 0 && steps%uint64(s.cfg.EverySteps) == 0
}

// dueAtEpoch reports whether one is due when so many steps and epochs are done; best: in any case.
func (s *saveSchedule) dueAtEpoch(steps uint64, epochs int, best bool) bool {
	return s.cfg.Dir != "" && (epochs%s.cfg.EveryEpochs == 0 || s.falls(steps) || best)
}

// dueByClock reports whether rank 0 is to ask for one now. None is being written.
func (s *saveSchedule) dueByClock(now time.Time) bool {
	if s.pace == savesLater {
		return !now.Before(s.again)
	}
	return s.cfg.Dir != "" && s.cfg.Every > 0 && now.Sub(s.begun) >= s.cfg.Every
}

// byConfig makes the next checkpoint that is due the next try: rank 0 has asked for one, or workers
// have come that know nothing of a later try.
func (s *saveSchedule) byConfig() { s.pace = savesByConfig }

// failed counts a checkpoint that failed, and returns how long training goes on without.
func (s *saveSchedule) failed(now time.Time) time.Duration {
	s.pace = savesLater
	s.failures++
	wait := pause(firstPause, s.failures)
	s.again = now.Add(wait)
	return wait
}

// tooMany reports whether so many have failed in a row that the run ends.
func (s *saveSchedule) tooMany() bool { return s.failures >= s.cfg.Failures }
