package tune

import "sync"

// A studyPhase says which events a study takes.
type studyPhase uint8

const (
	// studyOpen takes all events.
	studyOpen studyPhase = iota
	// studyUnsound takes none: the ledger may be ahead of the log.
	studyUnsound
	// studyClosed takes none: the study was closed.
	studyClosed
)

// A studyEnd is whether a study has ended, and why. The study's mutex guards fatal and phase.
type studyEnd struct {
	// over is closed when the study is halted or broken.
	over chan struct{}
	once sync.Once
	// fatal is the error that ended the study for good; nil: none did.
	fatal error
	phase studyPhase
}

// tell closes over.
func (e *studyEnd) tell() { e.once.Do(func() { close(e.over) }) }

// fail ends the study for good. The first error stays.
func (e *studyEnd) fail(err error) {
	if e.fatal == nil {
		e.fatal = err
	}
	e.tell()
}
