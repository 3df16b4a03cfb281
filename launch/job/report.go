package job

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
)

// A scheduler reports to its launcher by lines: first the address it listens on, then, as they happen, a WaitingLine every
// few seconds while the job is not complete, the RunningLine once it is, and the FailedLine. Other lines are skipped.
const (
	waitingWord = "waiting"
	runningWord = "running"
	failedWord  = "failed"
)

// WaitingLine says for whom a job waits that is not complete: "worker 1 on d2 (12 s)".
func WaitingLine(names []string) string { return reportLine(waitingWord, names...) }

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
	address chan string   // the first line
	waiting chan []string // newest WaitingLine; has room for one
	formed  *formation

	buf   []byte
	first bool

	mu     sync.Mutex // guards reason
	reason string
}

// A formation is whether the job was complete, as any of its schedulers has reported.
type formation struct {
	done chan struct{} // closed by the first RunningLine
	once sync.Once
}

func newFormation() *formation { return &formation{done: make(chan struct{})} }

func newReport(f *formation) *report {
	return &report{address: make(chan string, 1), waiting: make(chan []string, 1), formed: f, first: true}
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
	case waitingWord:
		select {
		case <-r.waiting:
		default:
		}
		r.waiting <- f[1:]
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

// never is the error of a job that waits for processes that have ended with code 0, so it can never be complete: some of its
// workers have joined, these never did. Workers that use no store at all wait for nobody.
func (r *run) never(waiting []string) string {
	var ended []string
	workers := 0
	for _, name := range waiting {
		for _, n := range r.nodes {
			if n.Role != roleWorker || !strings.HasPrefix(name+" ", n.Name()+" ") {
				continue
			}
			if workers++; n.ended && n.Exit.OK() {
				ended = append(ended, fmt.Sprintf("%s on %s", n.Name(), n.Host))
			}
		}
	}
	if len(ended) == 0 || workers == len(r.cfg.Workers) {
		return ""
	}
	return fmt.Sprintf("%s ended with exit 0 without joining, and the others wait: every worker must call kvstore.Create", strings.Join(ended, ", "))
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
			text += "; somebody else than launch sent it SIGTERM"
		}
		return text
	case w.first != nil:
		text := fmt.Sprintf("launch: %s on %s failed: %s", w.first.Name(), w.first.Host, w.first.Exit)
		last := cut(w.first.Last, 500)
		switch e := w.first.Exit; {
		case w.first.asked():
			text += "; somebody else than launch sent it or another worker SIGTERM"
		case e.Signal == syscall.SIGKILL:
			text += "; if nobody did that, the machine may have run out of memory (dmesg)"
		case e.Signal == 0 && e.Err == "" && last != "" && !strings.Contains(last, " INFO "):
			text += ": " + last
		}
		return text
	}
	return ""
}
