package dialin

import (
	"errors"
)

// Why Join ended, besides the end of the job and of its context.
var (
	// ErrRefused says why the launcher refused this agent and what to do. To try again is of no
	// use.
	ErrRefused = errors.New("the launcher refused this agent")

	// ErrLost says that the launcher was not reached, or that its lease expired.
	ErrLost = errors.New("the launcher is lost")
)

// A neverReached is an ErrLost of a launcher that this agent has not seen.
type neverReached struct{ error }

func (e neverReached) Unwrap() error { return e.error }

func (neverReached) Is(target error) bool { return target == ErrLost }

// errStopped is why an agent looks for another launcher: the one that it had has stopped, and the
// job goes on with the next one.
var errStopped = errors.New("launch: agent: the launcher has stopped before the job is over")

// errSessionOver is why a session is not resumed: the launcher has ended it.
var errSessionOver = errors.New("the launcher has ended the session")
