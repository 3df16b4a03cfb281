package tune

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// maxOutputLine is how long a line of a process may be before it is taken in pieces.
const maxOutputLine = 64 << 10

// A jobOutput takes what a trial's processes print: launch puts "worker 0 | " and the like before each line. Each rank's lines go into a
// file of their own, the rest into launch.log; rank 0's are looked through for metrics.
type jobOutput struct {
	trial *jobTrial

	mu    sync.Mutex // guards all below
	files map[string]*os.File
	errs  []error
	lines []*lineWriter
	said  tail // the newest lines, for errors
	erred tail // those of the standard error
}

func newJobOutput(t *jobTrial) (*jobOutput, error) {
	return &jobOutput{trial: t, files: make(map[string]*os.File)}, nil
}

func (o *jobOutput) stdout() io.Writer { return o.writer(true) }
func (o *jobOutput) stderr() io.Writer { return o.writer(false) }

func (o *jobOutput) writer(stdout bool) io.Writer {
	w := &lineWriter{to: func(line []byte) { o.line(line, stdout) }}
	o.lines = append(o.lines, w)
	return w
}

// close closes the files. What could not be written is no failure of the trial.
func (o *jobOutput) close() error {
	for _, w := range o.lines {
		w.end()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.files {
		if err := f.Close(); err != nil {
			o.errs = append(o.errs, err)
		}
	}
	if err := errors.Join(o.errs...); err != nil {
		o.trial.jobs.logger().Warn("tune: output of a trial is not whole", "trial", o.trial.attempt.Trial, "error", err)
	}
	return nil
}

func (o *jobOutput) line(line []byte, stdout bool) {
	name, rest := o.whose(line)
	o.mu.Lock()
	fmt.Fprintf(&o.said, "%s\n", line)
	if !stdout {
		fmt.Fprintf(&o.erred, "%s\n", line)
	}
	file := "launch.log"
	if rank, ok := strings.CutPrefix(name, "worker "); ok {
		file = "worker_" + rank + ".log"
	}
	if err := o.write(file, rest); err != nil && len(o.errs) < 3 {
		o.errs = append(o.errs, err)
	}
	o.mu.Unlock()
	if rank, ok := strings.CutPrefix(name, "worker "); ok {
		o.show(rank, rest)
	}
	if name == "worker 0" && stdout {
		if step, metrics, ok := parseMetrics(string(rest)); ok {
			o.report(step, metrics)
		}
	}
}

// whose tells from launch's prefix which process a line is of; "" is launch itself. Without servers there is one process, worker 0.
func (o *jobOutput) whose(line []byte) (name string, rest []byte) {
	if o.trial.jobs.NoServers {
		return "worker 0", line
	}
	before, after, ok := bytes.Cut(line, []byte("| "))
	if !ok {
		if before, ok = bytes.CutSuffix(line, []byte("|")); !ok { // an empty line
			return "", line
		}
	}
	name = strings.TrimRight(string(before), " ")
	for _, role := range []string{"worker ", "server "} {
		if rank, ok := strings.CutPrefix(name, role); ok {
			if _, err := strconv.ParseUint(rank, 10, 31); err == nil {
				return name, after
			}
		}
	}
	return "", line
}

func (o *jobOutput) write(file string, line []byte) error {
	f := o.files[file]
	if f == nil {
		var err error
		if f, err = os.Create(filepath.Join(o.trial.folder, file)); err != nil {
			return err
		}
		o.files[file] = f
	}
	_, err := f.Write(append(line, '\n'))
	return err
}

// show copies a worker's line to Jobs.Output.
func (o *jobOutput) show(rank string, line []byte) {
	j := o.trial.jobs
	if j.Output == nil {
		return
	}
	n, _ := strconv.Atoi(rank)
	node := localName
	if i := n / o.trial.resources.Slots; i < len(o.trial.grant.Parts) {
		node = o.trial.grant.Parts[i].Node
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.Output, "[ worker %s ] : %s\n", node, line)
}

// report hands in what was found on a line, and ends the processes if the trial is to stop: they do not hear the answer.
func (o *jobOutput) report(step int, metrics map[string]float64) {
	t := o.trial
	if t.session.Joined() > 0 {
		return // it reports by itself
	}
	a, err := t.Decide(step, metrics)
	switch {
	case err != nil:
		t.jobs.logger().Warn("tune: a line with metrics is no report", "trial", t.attempt.Trial, "error", err)
	case Action(a.Action) != Continue:
		t.stop()
	}
}

// parseMetrics reads a line of nothing but name=number, one of them the step.
func parseMetrics(line string) (step int, metrics map[string]float64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 || len(fields) > 256 {
		return 0, nil, false
	}
	metrics = make(map[string]float64)
	stepped := false
	for _, f := range fields {
		name, text, is := strings.Cut(strings.TrimSuffix(f, ","), "=")
		x, err := strconv.ParseFloat(text, 64)
		if !is || name == "" || err != nil && !math.IsInf(x, 0) {
			return 0, nil, false
		}
		if name == "step" {
			if stepped || x != math.Trunc(x) || x < 0 || x > 1<<53 {
				return 0, nil, false
			}
			step, stepped = int(x), true
			continue
		}
		metrics[name] = x
	}
	return step, metrics, stepped && len(metrics) > 0
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

// A lineWriter calls to with each line, without its end; end calls it with a last line that has none.
type lineWriter struct {
	to   func(line []byte)
	part []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		w.part = append(w.part, line...)
		if !whole && len(w.part) < maxOutputLine {
			return n, nil
		}
		w.to(bytes.TrimSuffix(w.part, []byte{'\r'}))
		w.part = w.part[:0]
		p = rest
	}
	return n, nil
}

func (w *lineWriter) end() {
	if len(w.part) > 0 {
		w.to(w.part)
		w.part = nil
	}
}
