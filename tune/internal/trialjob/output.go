package trialjob

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
)

// The files of an attempt, besides worker_RANK.log.
const (
	// launchLog has launch's messages, and the lines of processes other than workers.
	launchLog = "launch.log"
	// resultFile says how the job ended.
	resultFile = "result.json"
	// markerFile is the file by which processes see whether they have the search's files.
	markerFile = "marker"
)

// An outputConfig says what becomes of what the processes of a trial print.
type outputConfig struct {
	// folder gets the log files.
	folder string
	// metric is the study's; "": any.
	metric string
	// alone says that there is one process, rank 0, and no launch.
	alone bool
	// show gets each line of a worker; nil: nobody sees them.
	show func(control.Line)
	// report gets the metrics of each line that has some.
	report func(step int, metrics map[string]float64)
}

// An output takes what the processes of a trial print. The lines of each rank go into a file of its
// own; the standard output of rank 0 is searched for metrics.
type output struct {
	cfg outputConfig
	// out is what the trial's process writes to.
	out process.Output
	// end takes what is left, once the process has ended.
	end func() error

	// mu guards all below.
	mu      sync.Mutex
	files   logFiles
	metrics control.MetricsReader
	clues   clues
}

// newOutput begins to read what a trial prints. close waits for the rest.
func newOutput(cfg outputConfig) *output {
	o := &output{cfg: cfg, files: newLogFiles(cfg.folder), clues: newClues(cfg.metric)}
	if cfg.alone {
		m := lines.New(lines.Config{Each: o.line})
		self := lines.Source{Role: control.Worker}
		stdout, stderr := m.Stdout(self, 0), m.Stderr(self, 0)
		o.out = process.Output{Stdout: stdout, Stderr: stderr}
		o.end = func() error { stdout.Flush(); stderr.Flush(); return nil }
		return o
	}
	// launch prints lines of JSON.
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := control.ReadLines(r, o.line)
		// After an error the rest is read all the same: launch must never block on its
		// output.
		_, _ = io.Copy(io.Discard, r)
		read <- err
	}()
	o.out = process.Output{Stdout: w, Stderr: launchMessages{o}}
	o.end = func() error { return errors.Join(w.Close(), <-read) }
	return o
}

// launchMessages takes launch's standard error.
type launchMessages struct{ o *output }

// Write takes what launch itself has to say.
func (m launchMessages) Write(p []byte) (int, error) {
	m.o.mu.Lock()
	defer m.o.mu.Unlock()
	m.o.files.write(launchLog, p)
	_, _ = m.o.clues.messages.Write(p)
	return len(p), nil
}

// close closes the files. What could not be written does not make the trial fail.
func (o *output) close() error {
	err := o.end()
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(o.files.close(), err)
}

// line takes a line of a process.
func (o *output) line(l control.Line) {
	step, metrics, found := o.note(l)
	if l.Role != control.Worker {
		return
	}
	if o.cfg.show != nil {
		o.cfg.show(l)
	}
	if found {
		o.cfg.report(step, metrics)
	}
}

// note keeps a line, and finds the metrics in it.
func (o *output) note(l control.Line) (step int, metrics map[string]float64, found bool) {
	text := l.Text
	if !l.More {
		text += "\n"
	}
	file := launchLog
	if l.Role == control.Worker {
		file = fmt.Sprintf("worker_%d.log", l.Rank)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	m, found := o.metrics.Read(l)
	o.clues.note(l, found)
	fmt.Fprint(&o.clues.said, text)
	o.files.write(file, []byte(text))
	return m.Step, m.Values, found
}

// ask gives what is known of the end to f.
func (o *output) ask(f func(*clues) string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return f(&o.clues)
}

// errorOf is the line of a process that says what went wrong; "" if it printed nothing to its
// standard error.
func (o *output) errorOf(role string, rank int) string {
	return o.ask(func(c *clues) string { return c.errorOf(role, rank) })
}

// errorOfLaunch is the line of launch's messages that says what went wrong; "" if there is none.
func (o *output) errorOfLaunch() string { return o.ask((*clues).errorOfLaunch) }

// last is the last line of a standard output that is not blank.
func (o *output) last() string { return o.ask(func(c *clues) string { return c.last }) }

// said is the newest part of what the processes have printed.
func (o *output) said() string { return o.ask(func(c *clues) string { return c.said.String() }) }

// noMetrics is why no line was a report; "": one was.
func (o *output) noMetrics() string { return o.ask((*clues).noMetrics) }

const tailBytes = 64 << 10
