package tune

import (
	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// A Reporter connects one attempt of a trial with its study. Its methods may be called from
// several goroutines, but reports must come in the order of their steps.
type Reporter struct {
	trial   int
	attempt int
	seed    uint64
	// restore is the checkpoint to go on from; its step is -1: none.
	restore checkpoints.Name
	to      reports
}

// reports are how an attempt reaches its study: in this process (studyReports), or from a process
// of a job (searchReports).
type reports interface {
	// report is Reporter.Report.
	report(step int, metrics map[string]float64) error
	// decide is Reporter.Decide.
	decide(step int, metrics map[string]float64) (Decision, error)
	// checkpoint is Reporter.Checkpoint.
	checkpoint(step int, write func(dir string) error) error
	// folder is Reporter.Folder.
	folder() (string, error)
	// restored is the folder of the checkpoint to go on from.
	restored(name checkpoints.Name) string
}

// Report reports metrics at a step. It returns when the study has decided and the decision is on
// disk. Steps increase; reporting a step again changes nothing. With Config.Fidelity a report is
// kept until the run returns, and the last one counts. Any error asks the trainable to return with
// it; ErrStop and ErrPause in its chain (errors.Is) are decisions of the study.
func (r *Reporter) Report(step int, metrics map[string]float64) error {
	return r.to.report(step, metrics)
}

// Decide is Report for a Runner that forwards the decision.
func (r *Reporter) Decide(step int, metrics map[string]float64) (Decision, error) {
	return r.to.decide(step, metrics)
}

// Trial is the trial's number, Attempt the attempt's, from 1.
func (r *Reporter) Trial() int { return r.trial }

// Attempt is the attempt's number, from 1.
func (r *Reporter) Attempt() int { return r.attempt }

// Seed is the trial's: training whose only randomness comes from it can be repeated.
func (r *Reporter) Seed() uint64 { return r.seed }

// Folder makes and returns the trial's folder, which all its attempts share. It is temporary if the
// study has no Dir, and "" on another machine than the search's that does not share its file
// system.
func (r *Reporter) Folder() (string, error) { return r.to.folder() }

// Checkpoint saves what write puts into a folder as the trial's state after a step, whole or not at
// all. Call it before the report of that step: it takes effect with the report, so a trial that
// continues from it has reported the step, and a pause at that step finds it. A step that was saved
// before is not written again. Of a trial with several workers rank 0 writes; on the others write
// is not called. A file .tune-checksums is added to the folder; a checkpoint whose files do not
// match it is dropped. A worker on another machine than the search's that does not share its file
// system writes a temporary folder (TMPDIR), which is copied to the search; Jobs.MaxCopied bounds
// its size. A copy goes on where it was after its connection broke, and counts as a sign of life
// for Config.ReportTimeout.
func (r *Reporter) Checkpoint(step int, write func(dir string) error) error {
	return r.to.checkpoint(step, write)
}

// Restore returns the folder and step of the checkpoint to continue from; ok is false, and step is
// −1, if the attempt starts from the beginning: look at ok before training begins at step+1. It may
// be another trial's (Exploit). It exists until the attempt saves a checkpoint. On another machine
// that does not share the search's file system it is a copy. Do not write into it.
func (r *Reporter) Restore() (dir string, step int, ok bool) {
	if r.restore.Step < 0 {
		return "", -1, false
	}
	return r.to.restored(r.restore), r.restore.Step, true
}

// Donor is the trial whose checkpoint Restore returns: this one, or another after an exploit.
func (r *Reporter) Donor() int { return r.restore.Trial }
