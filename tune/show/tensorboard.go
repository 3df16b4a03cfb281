package show

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune"
)

// tensorBoard writes a search as TensorBoard's HPARAMS view reads it: what is searched in a file of
// the search's folder, each trial as a run below.
type tensorBoard struct {
	// columns are tags of the trials' numbers that the search's file names.
	columns []string
	begun   map[int]bool
	ended   map[int]bool
}

// searchFile and failedFile end the names of the search's own file and of a failed trial's end. Of
// several records in a folder TensorBoard takes the first, so these lie in files that are taken
// away when they no longer hold.
const (
	searchFile = "search"
	failedFile = "failed"
)

// search writes what is searched, with the study's metric and others as columns, unless that is
// there.
func (b *tensorBoard) search(f *Files, v tune.View, others tune.Metrics) error {
	columns := b.columns
	add := func(name string) {
		if tag := "tune/" + name; name != "" && !slices.Contains(columns, tag) {
			columns = append(slices.Clip(columns), tag)
		}
	}
	add(v.Metric())
	for _, m := range others {
		add(m.Name)
	}
	// There is no new column, which is so as well while no metric is known.
	if len(columns) == len(b.columns) {
		return nil
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	// The new file is written before the old one goes: TensorBoard may read at any time.
	old, err := eventFiles(f.dir, searchFile)
	if err != nil {
		return err
	}
	file, err := metrics.NewEventFile(f.dir, searchFile, 0, f.now())
	if err != nil {
		return err
	}
	err = file.AddExperiment(f.now(), metrics.Experiment{Name: filepath.Base(f.dir), Created: f.now(), Params: hparams(v), Metrics: columns})
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	b.columns = columns
	return remove(old)
}

// start begins the file of an attempt.
func (b *tensorBoard) start(f *Files, v tune.View, t *tune.Trial, e tune.Event) (*metrics.EventFile, error) {
	dir := f.folder(t)
	failed, err := eventFiles(dir, failedFile)
	if err == nil {
		err = remove(failed)
	}
	if err != nil {
		return nil, err
	}
	delete(b.ended, t.Number)
	file, err := metrics.NewEventFile(dir, fmt.Sprintf("attempt-%d", t.Attempts), nextStep(t), f.now())
	if err != nil {
		return nil, err
	}
	err = file.BeginSession(f.now(), sessionOf(v, t.Params))
	// The HPARAMS view keeps the parameters of the first attempt.
	if err == nil && !e.New && e.Params.Len() > 0 {
		err = file.AddText(lastStep(t), f.now(), "tune/params", fmt.Sprintf("From here on: `%v`", e.Params))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	b.begun[t.Number] = true
	return file, nil
}

// lastStep is the step of a trial's newest report, or 0 before the first.
func lastStep(t *tune.Trial) int64 {
	last, _ := t.LastStep()
	return int64(last)
}

// nextStep is the first step that a trial's next attempt may report.
func nextStep(t *tune.Trial) int64 {
	if last, ok := t.LastStep(); ok {
		return int64(last) + 1
	}
	return 0
}

// end writes that a trial is over for good, if it is. The file is that of its newest attempt; nil:
// it is closed.
func (b *tensorBoard) end(f *Files, t *tune.Trial, file *metrics.EventFile) (err error) {
	failed := t.State == tune.Failed
	switch {
	case !failed && t.State != tune.Completed && t.State != tune.Pruned, b.ended[t.Number]:
		// A trial that has not ended may go on later, and one that has is written once.
		return nil
	case failed || file == nil:
		suffix := "end"
		if failed {
			suffix = failedFile
		}
		if file, err = metrics.NewEventFile(f.folder(t), suffix, lastStep(t)+1, f.now()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	b.ended[t.Number] = true
	return file.EndSession(f.now(), failed)
}

// endAll ends what has no attempt: trials that were paused and then pruned.
func (b *tensorBoard) endAll(f *Files, v tune.View) error {
	var errs []error
	for t := range v.Trials() {
		if b.begun[t.Number] {
			errs = append(errs, b.end(f, t, nil))
		}
	}
	return errors.Join(errs...)
}

// remove removes files, which may be gone already.
func remove(files []string) error {
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// eventFiles are a folder's event files whose names end so, in order.
func eventFiles(dir, suffix string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.Contains(name, "tfevents") && strings.HasSuffix(name, suffix) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths, nil
}
