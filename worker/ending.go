package worker

import "github.com/paragon-train/paragon/kvstore"

// An ending says why the steps of a division have ended, and so what comes next.
type ending uint8

const (
	// notEnded: there is more of the division. The epoch's last step may have had no effect, so
	// that an adapting run's epoch goes on.
	notEnded ending = iota
	// membersChanged: what is left of the epoch has a new division.
	membersChanged
	// batchChanged: the feed begins anew at the next step, with steps of another size.
	batchChanged
	// passEnded: the data were used up, and the epoch, which is one of progress, goes on in the
	// next pass.
	passEnded
	// epochEnded: all steps of the epoch are done.
	epochEnded
	// runEnded: MaxSteps are done, or the run ends early. The epoch ends here.
	runEnded
	// stopAgreed: all workers stop after this step. The epoch is left to a resumed run.
	stopAgreed
)

// goesOn reports whether the epoch has more steps.
func (e ending) goesOn() bool { return e < epochEnded }

// A stopKind says whether all workers have agreed to stop, and for whom.
type stopKind uint8

const (
	goingOn stopKind = iota
	// stopAsked: a worker's program asked for it (FitConfig.Stop), or a worker was told to end.
	stopAsked
	// stopForCheckpoint: the job was asked to stop with a checkpoint, so that it goes on later.
	stopForCheckpoint
)

// ErrRemoved ends Fit when this worker has left the job, as the job asked it to or by
// FitConfig.Leave: all its steps count, and the others go on. Close the store and exit with code 0.
var ErrRemoved = kvstore.ErrRemoved
