package job

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
)

// A scheduler reports to its launcher by lines: first the address it listens on, then, as they happen, a PresenceLine for everybody who comes
// or goes while the job is not complete, the RunningLine once it is, and the FailedLine. Other lines are skipped.
const (
	presentWord = "present"
	absentWord  = "absent"
	runningWord = "running"
	failedWord  = "failed"
)

// PresenceLine says that the node which was started as role and rank, "worker 1", has registered, or is gone.
func PresenceLine(role string, rank int, here bool) string {
	word := absentWord
	if here {
		word = presentWord
	}
	return reportLine(word, fmt.Sprintf("%s %d", role, rank))
}

// RunningLine says that the job is complete.
func RunningLine() string { return runningWord }

// FailedLine says why the job failed.
func FailedLine(reason string) string { return reportLine(failedWord, reason) }

func reportLine(word string, fields ...string) string {
	for _, f := range fields {
		word += "\t" + strings.Join(strings.Fields(f), " ")
	}
	return word
}

// maxReport bounds one line of a report.
const maxReport = 64 << 10

// A report takes what the scheduler reports.
type report struct {
	address chan string // the first line
	formed  *formation

	buf   []byte
	first bool

	mu     sync.Mutex // guards reason
	reason string
}

// A formation is how far the job is on its way to be complete, as its schedulers have reported.
type formation struct {
	done chan struct{} // closed by the first RunningLine
	once sync.Once
	news chan struct{} // gets something when somebody has come or gone, if there is room

	mu   sync.Mutex // guards here
	here map[string]bool
}

func newFormation() *formation {
	return &formation{done: make(chan struct{}), news: make(chan struct{}, 1), here: make(map[string]bool)}
}

func (f *formation) set(name string, here bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if here {
		f.here[name] = true
	} else {
		delete(f.here, name)
	}
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// has reports whether the node of a name has joined and is there.
func (f *formation) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.here[name]
}

// anyWorker reports whether any worker has.
func (f *formation) anyWorker() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.here {
		if strings.HasPrefix(name, roleWorker+" ") {
			return true
		}
	}
	return false
}

func newReport(f *formation) *report {
	return &report{address: make(chan string, 1), formed: f, first: true}
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
	f := strings.Split(line, "\t")
	switch f[0] {
	case presentWord, absentWord:
		r.formed.set(strings.Join(f[1:], " "), f[0] == presentWord)
	case runningWord:
		r.formed.once.Do(func() { close(r.formed.done) })
	case failedWord:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.reason == "" {
			r.reason = strings.Join(f[1:], " ")
		}
	}
}

// failed is why the job failed, as far as the scheduler knows by now.
func (r *report) failed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason
}

// explain is the last line of a job that did not end well: what happened first, not what followed from it.
func (w *watch) explain() string {
	switch {
	case w.interrupt != nil:
		return fmt.Sprintf("launch: stopped by %s", w.interrupt)
	case w.reason != "":
		for _, n := range w.run.nodes {
			if n.Role == roleWorker && n.ended && n.Exit.OK() && w.names(n) && strings.Contains(w.reason, " lost: ") {
				return fmt.Sprintf("launch: the job failed: %s on %s ended with exit 0 without closing its store, while others trained; call Close before the program ends",
					n.Name(), n.Host)
			}
		}
		if w.first != nil && w.first == w.lost && w.over && w.first.asked() {
			return "launch: the job has ended: " + w.reason
		}
		text := "launch: the job failed: " + w.reason
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
