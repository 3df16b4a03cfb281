package tune

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/paragon-train/paragon/tune/internal/remote"
)

// A Reporter connects one attempt of a trial with its study. Its methods may be called from
// several goroutines, but reports must come in the order of their steps.
type Reporter struct {
	study   *Study
	search  *remote.Client // in place of study: the search is another process
	trial   int
	attempt int
	seed    uint64
	restore keptStep
	// restored is the folder of restore, if the search is another process.
	restored string
	ctx      context.Context // ends when the attempt must end

	mu     sync.Mutex // guards all below
	heard  time.Time  // of the newest report
	step   int        // of the newest report, -1 before
	told   time.Time  // when it was asked to return
	notify chan struct{}
}

// Reporter returns the Reporter for the attempt of a trial that Ask returned.
func (s *Study) Reporter(t Trial) *Reporter { return s.reporter(context.Background(), t) }

func (s *Study) reporter(ctx context.Context, t Trial) *Reporter {
	s.mu.Lock()
	restore := s.l.trials[t.Number].run.restore
	s.mu.Unlock()
	return &Reporter{study: s, trial: t.Number, attempt: t.Attempts, seed: t.Seed, restore: restore, ctx: ctx,
		heard: time.Now(), step: -1, notify: make(chan struct{}, 1)}
}

// Report reports metrics at a step. It returns when the study has decided and the decision is on
// disk. Steps increase; reporting a step again changes nothing. With Config.Fidelity a report is
// kept until the run returns, and the last one counts. Any error asks the trainable to return with
// it; ErrStop and ErrPause in its chain (errors.Is) are decisions of the study.
func (r *Reporter) Report(step int, metrics map[string]float64) error {
	if r.search != nil {
		return r.report(step, metrics)
	}
	d, err := r.Decide(step, metrics)
	if err != nil {
		return err
	}
	if err := answer(r.trial, step, d); err != nil {
		return err
	}
	if r.ctx.Err() != nil {
		return fmt.Errorf("tune: trial %d step %d: %w: %w", r.trial, step, context.Cause(r.ctx), ErrPause)
	}
	return nil
}

// Decide is Report for a Runner that forwards the decision. It works in the process of the search
// only.
func (r *Reporter) Decide(step int, metrics map[string]float64) (Decision, error) {
	d, err := r.study.tell(r.trial, r.attempt, step, metrics)
	r.study.sweep()
	r.mu.Lock()
	r.step = max(r.step, step)
	if err == nil && d.Action != Continue && r.told.IsZero() {
		r.told = time.Now()
	}
	r.mu.Unlock()
	r.alive()
	return d, err
}

// alive says that the trial does something, though it does not report.
func (r *Reporter) alive() {
	r.mu.Lock()
	r.heard = time.Now()
	r.mu.Unlock()
	select {
	case r.notify <- struct{}{}:
	default:
	}
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
func (r *Reporter) Folder() (string, error) {
	if r.search != nil {
		return r.search.Task().Folder, nil
	}
	root, err := r.studyFolder()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, trialsFolder, trialName(r.trial))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", fmt.Errorf("tune: folder of trial %d: %w", r.trial, err)
	}
	return dir, nil
}

// studyFolder is the study's folder, on the search's machine.
func (r *Reporter) studyFolder() (string, error) {
	r.study.mu.Lock()
	defer r.study.mu.Unlock()
	return r.study.keepFolder()
}

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
	if r.search != nil {
		return lostSearch(r.search.Checkpoint(r.ctx, step, write))
	}
	return r.study.checkpoint(r.trial, r.attempt, step, write)
}

// Restore returns the folder and step of the checkpoint to continue from; ok is false, and step is
// −1, if the attempt starts from the beginning: look at ok before training begins at step+1. It may
// be another trial's (Exploit). It exists until the attempt saves a checkpoint. On another machine
// that does not share the search's file system it is a copy. Do not write into it.
func (r *Reporter) Restore() (dir string, step int, ok bool) {
	if r.restore.step < 0 {
		return "", -1, false
	}
	if r.search != nil {
		return r.restored, r.restore.step, true
	}
	r.study.mu.Lock()
	defer r.study.mu.Unlock()
	return filepath.Join(r.study.folder, r.restore.folder()), r.restore.step, true
}

// Donor is the trial whose checkpoint Restore returns: this one, or another after an exploit.
func (r *Reporter) Donor() int { return r.restore.trial }
