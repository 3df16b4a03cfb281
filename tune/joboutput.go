package tune

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
)

// The files of an attempt, besides worker_RANK.log.
const (
	launchLog  = "launch.log"  // launch's messages, and the lines of processes other than workers
	resultFile = "result.json" // how the job ended
	markerFile = "marker"      // by which processes see whether they have the search's files
)

// A jobOutput takes what the processes of a trial print. The lines of each rank go into a file of
// its own; the standard output of rank 0 is searched for metrics.
type jobOutput struct {
	trial *jobTrial
	out   process.Output // what the trial's process writes to
	end   func() error   // takes what is left, once the process has ended
	found func(step int, metrics map[string]float64)

	mu        sync.Mutex // guards all below
	files     map[string]*os.File
	errs      []error
	metrics   control.MetricsReader
	said      tail                         // the newest lines of the processes
	messages  tail                         // the newest ones of launch
	last      string                       // the last line of a standard output that is not blank
	erred     map[lines.Source]*errorLines // of standard errors
	reports   int                          // lines with metrics
	stepless  string                       // the first line of rank 0 with metrics and without a step, if possible one with the study's metric
	named     bool                         // stepless has the study's metric
	misplaced string                       // the first line of rank 0's standard error with metrics and a step
}

func newJobOutput(t *jobTrial) *jobOutput {
	o := &jobOutput{trial: t, files: make(map[string]*os.File), erred: make(map[lines.Source]*errorLines)}
	o.found = o.report
	if t.jobs.NoServers { // one process, which is rank 0
		m := lines.New(lines.Config{Each: o.line})
		self := lines.Source{Role: control.Worker}
		stdout, stderr := m.Stdout(self, 0), m.Stderr(self, 0)
		o.out = process.Output{Stdout: stdout, Stderr: stderr}
		o.end = func() error { stdout.Flush(); stderr.Flush(); return nil }
		return o
	}
	r, w := io.Pipe() // launch's, with --output json
	read := make(chan error, 1)
	go func() {
		err := control.ReadLines(r, o.line)
		_, _ = io.Copy(io.Discard, r) // launch does not wait for a reader
		read <- err
	}()
	o.out = process.Output{Stdout: w, Stderr: launchMessages{o}}
	o.end = func() error { return errors.Join(w.Close(), <-read) }
	return o
}

// launchMessages takes launch's standard error.
type launchMessages struct{ o *jobOutput }

func (m launchMessages) Write(p []byte) (int, error) {
	m.o.mu.Lock()
	defer m.o.mu.Unlock()
	m.o.write(launchLog, p)
	_, _ = m.o.messages.Write(p)
	return len(p), nil
}

// close closes the files. What could not be written does not make the trial fail.
func (o *jobOutput) close() {
	err := o.end()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.files {
		if err := f.Close(); err != nil {
			o.errs = append(o.errs, err)
		}
	}
	if err := errors.Join(append(o.errs, err)...); err != nil {
		o.trial.jobs.logger().Warn("tune: the logs of a trial are incomplete", "trial", o.trial.attempt.Trial, "error", err)
	}
}

// line takes a line of a process.
func (o *jobOutput) line(l control.Line) {
	text := l.Text
	if !l.More {
		text += "\n"
	}
	file := launchLog
	if l.Role == control.Worker {
		file = fmt.Sprintf("worker_%d.log", l.Rank)
	}
	o.mu.Lock()
	m, found := o.metrics.Read(l)
	fmt.Fprint(&o.said, text)
	if from := (lines.Source{Role: l.Role, Rank: l.Rank}); l.Stream == control.Stderr {
		if o.erred[from] == nil {
			o.erred[from] = &errorLines{}
		}
		o.erred[from].add(l.Text)
		if o.misplaced == "" && from == (lines.Source{Role: control.Worker}) {
			if _, ok := control.ParseMetrics(l.Text); ok {
				o.misplaced = l.Text
			}
		}
	} else if strings.TrimSpace(l.Text) != "" {
		o.last = l.Text
	}
	if found {
		o.reports++
	} else if l.Role == control.Worker && l.Rank == 0 && l.Stream == control.Stdout && !o.named && control.WithoutStep(l.Text) {
		metric := o.trial.attempt.metric
		o.named = metric != "" && strings.Contains(" "+l.Text, " "+metric+"=")
		if o.named || o.stepless == "" {
			o.stepless = l.Text
		}
	}
	o.write(file, []byte(text))
	o.mu.Unlock()
	if l.Role != control.Worker {
		return
	}
	o.show(l)
	if found {
		o.found(m.Step, m.Values)
	}
}

// write appends to a file of the attempt. The caller holds mu.
func (o *jobOutput) write(file string, text []byte) {
	f, err := o.files[file], error(nil)
	if f == nil {
		if f, err = os.Create(filepath.Join(o.trial.folder, file)); err == nil {
			o.files[file] = f
		}
	}
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil || len(o.errs) == 3 {
		return
	}
	if !slices.ContainsFunc(o.errs, func(earlier error) bool { return earlier.Error() == err.Error() }) {
		o.errs = append(o.errs, err)
	}
}

// show copies a worker's line to Jobs.Output.
func (o *jobOutput) show(l control.Line) {
	j := o.trial.jobs
	if j.Output == nil {
		return
	}
	node := localName
	if o.trial.grant == nil { // it is elastic
		node = fmt.Sprint(l.Rank)
	} else if i := l.Rank / o.trial.resources.Slots; i < len(o.trial.grant.Parts) {
		node = o.trial.grant.Parts[i].Node
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.Output, "[ worker %s of trial %d ] : %s\n", node, o.trial.attempt.Trial, l.Text)
}

// errorOf is the line of a process that says what went wrong; "" if it printed nothing to its
// standard error.
func (o *jobOutput) errorOf(role string, rank int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.erred[lines.Source{Role: role, Rank: rank}]; e != nil {
		return e.text()
	}
	return ""
}

// noMetrics is why a command that ended well has reported nothing; nil if it has, or could go on
// from a report.
func (o *jobOutput) noMetrics() error {
	if _, _, restored := o.trial.reporter.Restore(); restored || o.trial.joined() {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.reports > 0:
		return nil
	case o.misplaced != "":
		return Fail(UserCode, fmt.Errorf("%s: its line %q is on the standard error: print metrics on the standard output", noReport, o.misplaced))
	case o.stepless != "":
		return Fail(UserCode, fmt.Errorf("%s: its line %q has no step: print the step beside the metrics, as in accuracy=0.5 step=1", noReport, o.stepless))
	}
	return Fail(UserCode, fmt.Errorf("%s: no line that it printed has metrics and a step, as in accuracy=0.5 step=1", noReport))
}

// report reports the metrics of a line, and ends the processes if the trial is to stop: they do not
// hear the answer.
func (o *jobOutput) report(step int, metrics map[string]float64) {
	t := o.trial
	if t.joined() {
		return // it reports by itself
	}
	if err := t.saveCheckpoint(step); err != nil {
		t.jobs.logger().Warn("tune: a checkpoint of a command could not be saved", "trial", t.attempt.Trial, "step", step, "error", err)
	}
	a, err := t.Decide(step, metrics)
	switch {
	case err != nil:
		t.jobs.logger().Warn("tune: a line with metrics was refused", "trial", t.attempt.Trial, "error", err)
	case Action(a.Action) != Continue:
		t.stop()
	}
}

// errorOfLaunch is the line of launch's messages that says what went wrong; "" if there is none.
func (o *jobOutput) errorOfLaunch() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all errorLines
	for line := range strings.Lines(o.messages.String()) {
		all.add(strings.TrimSuffix(line, "\n"))
	}
	return all.text()
}

// A tail keeps the last part of what is written to it.
type tail struct{ b []byte }

const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }
