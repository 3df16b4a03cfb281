package show

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune"
)

// A Files writes the results of each trial into its folder, dir/trials/trial-000007. In the study's
// folder these also have the trial's logs and checkpoints:
//
//	params.json            the parameters of the newest attempt
//	result.json            a line of JSON for each report: metrics, training_iteration, time_total_s, timestamp, trial_id, config; of elastic
//	                       jobs also replicas, restarts, batch, goodput
//	progress.csv           the same numbers as a table
//	events.out.tfevents.*  the same numbers for TensorBoard, with the parameters and how the trial ended for its HPARAMS view
//
// and, when the search is over, dir/trials.csv with a row for each trial. dir/events.out.tfevents.*
// has what is searched: tensorboard --logdir dir compares the trials. Numbers that are not finite
// are not in TensorBoard's files.
//
// An error of writing does not end the search: Err and Close return it.
type Files struct {
	dir string
	// now is the time by which event files are named.
	now func() time.Time
	// open has the files of trials with an attempt under way.
	open map[int]*files
	tb   tensorBoard
	err  error
}

// files are those of a trial that runs.
type files struct {
	result *os.File
	csv    *os.File
	// columns are those of progress.csv, by the first report.
	columns []string
	events  *metrics.EventFile
}

// NewFiles writes into dir, which is created when needed.
func NewFiles(dir string) *Files {
	return &Files{dir: dir, now: time.Now, open: make(map[int]*files), tb: tensorBoard{begun: make(map[int]bool), ended: make(map[int]bool)}}
}

// Err is the first error of writing.
func (f *Files) Err() error { return f.err }

// Observe implements tune.Observer.
func (f *Files) Observe(v tune.View, e tune.Event) {
	t := v.Trial(e.Trial)
	if t == nil {
		return
	}
	var err error
	switch e.Kind {
	case tune.EventStart:
		err = f.start(v, t, e)
	case tune.EventReport:
		err = f.report(v, t, e)
	case tune.EventEnd:
		err = f.end(t)
	}
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("show: results of %s: %w", t.Name(), err)
	}
}

// Close implements tune.Closer.
func (f *Files) Close(v tune.View) error {
	for trial := range f.open {
		if err := f.close(trial); err != nil && f.err == nil {
			f.err = fmt.Errorf("show: results: %w", err)
		}
	}
	if err := f.tb.endAll(f, v); err != nil && f.err == nil {
		f.err = fmt.Errorf("show: results: %w", err)
	}
	if v.Len() > 0 {
		if err := f.summary(v); err != nil && f.err == nil {
			f.err = err
		}
	}
	return f.err
}

// summary writes the table of all trials. It is made anew as a whole, so a search that is resumed
// leaves no half of one.
func (f *Files) summary(v tune.View) error {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return fmt.Errorf("show: %w", err)
	}
	return vfs.WriteFile(vfs.OS{}, filepath.Join(f.dir, "trials.csv"), func(w io.Writer) error { return TrialsCSV(w, v) })
}

// folder is a trial's.
func (f *Files) folder(t *tune.Trial) string { return filepath.Join(f.dir, "trials", t.Name()) }

// start opens the files of an attempt. A further attempt continues those of the ones before it.
func (f *Files) start(v tune.View, t *tune.Trial, e tune.Event) error {
	if err := f.tb.search(f, v, nil); err != nil {
		return err
	}
	dir := f.folder(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	params, err := json.MarshalIndent(t.Params, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "params.json"), append(params, '\n'), 0o644); err != nil {
		return err
	}
	if err := f.close(t.Number); err != nil {
		return err
	}
	o := &files{}
	f.open[t.Number] = o
	if o.result, err = appendTo(filepath.Join(dir, "result.json")); err != nil {
		return err
	}
	if o.csv, err = appendTo(filepath.Join(dir, "progress.csv")); err != nil {
		return err
	}
	o.events, err = f.tb.start(f, v, t, e)
	return err
}

// appendTo opens a file to write behind what it has.
func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}

// report writes a report into all files of its trial.
func (f *Files) report(v tune.View, t *tune.Trial, e tune.Event) error {
	o := f.open[t.Number]
	if o == nil || o.events == nil {
		// The error was reported before.
		return nil
	}
	if err := f.tb.search(f, v, e.Metrics); err != nil {
		return err
	}
	elapsed := t.Elapsed.Seconds()
	line := map[string]any{
		"trial_id": t.Number, "training_iteration": e.Step, "time_total_s": elapsed, "timestamp": e.Time.Unix(), "config": t.Params,
	}
	scalars := make([]metrics.Scalar, 0, len(e.Metrics)+len(replicaColumns)+1)
	if one := []*tune.Trial{t}; elastic(one) {
		for i, x := range replicaCells(t) {
			if x == nil {
				continue
			}
			line[replicaColumns[i]] = x
			value, whole := x.(int)
			number := float64(value)
			if !whole {
				number = x.(float64)
			}
			scalars = append(scalars, metrics.Scalar{Tag: "tune/" + replicaColumns[i], Value: number})
		}
	}
	for _, m := range e.Metrics {
		// JSON has no such numbers; They are written as words.
		line[m.Name] = m.Value
		if !isFinite(m.Value) {
			line[m.Name] = strconv.FormatFloat(m.Value, 'g', -1, 64)
			continue
		}
		scalars = append(scalars, metrics.Scalar{Tag: "tune/" + m.Name, Value: m.Value})
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := o.result.Write(append(b, '\n')); err != nil {
		return err
	}
	if err := o.events.Add(int64(e.Step), e.Time, append(scalars, metrics.Scalar{Tag: "tune/time_total_s", Value: elapsed})...); err != nil {
		return err
	}
	return o.row(e, elapsed)
}

// row adds a row to progress.csv. Its columns are the metrics of the attempt's first report; a
// metric that comes later is in result.json.
func (o *files) row(e tune.Event, elapsed float64) error {
	out := csv.NewWriter(o.csv)
	if o.columns == nil {
		o.columns = e.Metrics.Names()
		if err := out.Write(append([]string{"training_iteration", "time_total_s", "timestamp"}, o.columns...)); err != nil {
			return err
		}
	}
	row := []string{strconv.Itoa(e.Step), exact(elapsed), strconv.FormatInt(e.Time.Unix(), 10)}
	for _, name := range o.columns {
		x, ok := e.Metrics.Get(name)
		if !ok {
			x = math.NaN()
		}
		row = append(row, exact(x))
	}
	if err := out.Write(row); err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

// end ends the files of an attempt.
func (f *Files) end(t *tune.Trial) error {
	var ended error
	if o := f.open[t.Number]; o != nil && o.events != nil {
		ended = f.tb.end(f, t, o.events)
	}
	return errors.Join(ended, f.close(t.Number))
}

// close closes the files of an attempt.
func (f *Files) close(trial int) error {
	o := f.open[trial]
	if o == nil {
		return nil
	}
	delete(f.open, trial)
	var errs []error
	if o.result != nil {
		errs = append(errs, o.result.Close())
	}
	if o.csv != nil {
		errs = append(errs, o.csv.Close())
	}
	if o.events != nil {
		errs = append(errs, o.events.Close())
	}
	return errors.Join(errs...)
}
