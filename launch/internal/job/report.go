package job

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/process"
)

// maxReport bounds one line of a report.
const maxReport = 64 << 10

// A report takes what the scheduler reports.
type report struct {
	address chan string // the first line
	formed  *formation
	log     *slog.Logger

	buf   []byte
	first bool

	mu      sync.Mutex // guards failure
	failure *control.Failure
}

// A formation is how far the job is on its way to be complete, as its schedulers have reported.
type formation struct {
	done chan struct{} // closed by the first RunningLine
	once sync.Once
	news chan struct{} // gets something when somebody has come or gone, if there is room

	mu   sync.Mutex // guards here
	here map[control.Presence]bool
}

func newFormation() *formation {
	return &formation{done: make(chan struct{}), news: make(chan struct{}, 1), here: make(map[control.Presence]bool)}
}

func (f *formation) set(p control.Presence, here bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if here {
		f.here[p] = true
	} else {
		delete(f.here, p)
	}
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// has reports whether the node of a process has joined and is there.
func (f *formation) has(process uint32) bool {
	return f.any(func(p control.Presence) bool { return p.Process == process })
}

// anyWorker reports whether any worker has.
func (f *formation) anyWorker() bool {
	return f.any(func(p control.Presence) bool { return p.Role == roleWorker })
}

func (f *formation) any(is func(control.Presence) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.here {
		if is(p) {
			return true
		}
	}
	return false
}

func newReport(f *formation, log *slog.Logger) *report {
	return &report{address: make(chan string, 1), formed: f, first: true, log: log}
}

// Write implements io.Writer for one goroutine.
func (r *report) Write(p []byte) (int, error) {
	r.buf = append(r.buf, p...)
	for {
		line, rest, found := strings.Cut(string(r.buf), "\n")
		if !found && len(line) <= maxReport {
			return len(p), nil
		}
		r.buf = []byte(rest)
		r.line(line)
	}
}

func (r *report) line(line string) {
	if r.first {
		r.first = false
		r.address <- line
		return
	}
	got, err := control.DecodeReport([]byte(line))
	switch {
	case err != nil:
		r.log.Warn(fmt.Sprintf("launch: the scheduler reports %.100q: %v", line, err))
	case got.Present != nil:
		r.formed.set(*got.Present, true)
	case got.Absent != nil:
		r.formed.set(*got.Absent, false)
	case got.Running:
		r.formed.once.Do(func() { close(r.formed.done) })
	case got.Failed != nil:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.failure == nil {
			r.failure = got.Failed
		}
	}
}

// failed is why the job failed, as far as the scheduler knows by now; nil: it has not.
func (r *report) failed() *control.Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// ending is why the job failed, as it is told: a worker that the scheduler holds for lost may have ended with code 0.
func (w *watch) ending() control.Failure {
	f := *w.failure
	if n := w.run.nodeOf(f.Process); n != nil && n.Role == roleWorker && n.ended && n.Exit.OK() && f.OfLoss() {
		f = control.Failure{Code: control.NotClosed, Role: n.Role, Rank: n.Rank, Host: n.Host, Process: n.process, Cause: causeOf(n.Exit)}
	}
	return f
}

// causeOf is how a process ended.
func causeOf(e process.Exit) control.Cause {
	switch {
	case e.Lost:
		return control.Cause{Kind: control.CauseMachine, Exit: e.Code, Text: e.Err}
	case e.Err != "":
		return control.Cause{Kind: control.CauseStart, Exit: e.Code, Text: e.Err}
	case e.Signal != 0:
		return control.Cause{Kind: control.CauseSignal, Signal: int(e.Signal)}
	}
	return control.Cause{Kind: control.CauseExit, Exit: e.Code}
}

// explain is the last line of a job that did not end well: what happened first, not what followed from it.
func (w *watch) explain() string {
	switch {
	case w.interrupt != nil:
		return fmt.Sprintf("launch: stopped by %s", w.interrupt)
	case w.failure != nil:
		if w.failure.Code == control.StoppedByOthers {
			return "launch: the job has ended: " + w.failure.String()
		}
		text := "launch: the job failed: " + w.ending().String()
		if c := w.culprit; c != nil && c.asked() {
			text += "; it got SIGTERM from outside the launcher"
		}
		return text
	case w.first != nil:
		text := fmt.Sprintf("launch: %s on %s failed: %s%s", w.first.Name(), w.first.Host, w.first.Exit, w.beforeComplete(w.first))
		last := cut(w.first.Last, 500)
		switch e := w.first.Exit; {
		case w.first.asked():
			text += "; it or another worker got SIGTERM from outside the launcher"
		case e.Signal == syscall.SIGKILL:
			text += "; if nobody did that, the machine may have run out of memory (dmesg)"
		case e.Signal == 0 && e.Err == "" && last != "" && !strings.Contains(last, " INFO "):
			text += ": " + last
		}
		return text
	}
	return ""
}
