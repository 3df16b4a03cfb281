package show

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/tune"
)

// A Status shows a running search. On a terminal it is a table that is redrawn in place:
//
//	== Status ==
//	mnist: running for 1m12s; accuracy, larger is better; suggest.TPE, schedule.ASHA
//	24 of 100 trials: 4 running, 12 completed, 8 pruned; 4 of 8 slots in use
//	best: trial-000007, accuracy 0.9812 at step 9, {lr: 0.0031, optimizer: "sgd"}
//	trial name    status   loc    ...
//
// Elsewhere it is one line for each trial that starts, becomes the best or ends, and the table once
// at the end.
//
// Write other output for the terminal to the Status, in whole lines: it appears above the table.
type Status struct {
	// Name is the study's. "" takes the one from the log's first event, which a resumed search
	// does not show.
	Name string

	// mu guards Name and all below.
	mu  sync.Mutex
	out io.Writer
	// terminal is the size of the terminal; 0, 0: out is none.
	terminal func() (columns, rows int)
	// interval is the least time between two drawings of the table.
	interval time.Duration

	// elapsed is the search's time by its last event.
	elapsed time.Duration
	// since is when that event was first seen.
	since time.Time

	// drawn is when the table was drawn last.
	drawn time.Time
	// table has the lines as they were drawn last.
	table []string
	// lines is how many lines of the table stand on the terminal.
	lines int
	// value is the best so far; NaN: there is none.
	value float64
	// best is the trial that was last shown as the best; -1: none.
	best int

	// placed has the replicas that were last shown of each trial.
	placed map[int]string
}

// NewStatus shows on out; on a terminal every half second.
func NewStatus(out *os.File) *Status {
	return newStatus(out, func() (int, int) {
		columns, rows, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return 0, 0
		}
		return columns, rows
	})
}

// NewLines shows on out in lines, also on a terminal.
func NewLines(out io.Writer) *Status {
	return newStatus(out, func() (int, int) { return 0, 0 })
}

// newStatus shows on out. Where terminal has no columns it shows lines.
func newStatus(out io.Writer, terminal func() (int, int)) *Status {
	return &Status{out: out, terminal: terminal, interval: 500 * time.Millisecond, value: math.NaN(), best: -1}
}

// Write writes lines above the table. It may be called at any time.
func (s *Status) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	n, err := s.out.Write(p)
	if err == nil {
		s.put()
	}
	return n, err
}

// Observe implements tune.Observer.
func (s *Status) Observe(v tune.View, e tune.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Header != nil && s.Name == "" {
		s.Name = e.Header.Name
	}
	if best := bestTrial(v); e.Kind == tune.EventOpen && best != nil {
		s.value, s.best = v.Result(best), best.Number
	}
	if columns, _ := s.terminal(); columns > 0 {
		return
	}
	if line := s.line(v, e); line != "" {
		fmt.Fprintln(s.out, line)
	}
}

// Tick implements tune.Ticker.
func (s *Status) Tick(v tune.View, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := v.Elapsed(); s.since.IsZero() || e != s.elapsed {
		s.elapsed, s.since = e, now
	}
	if columns, rows := s.terminal(); columns > 0 && now.Sub(s.drawn) >= s.interval {
		s.drawn = now
		s.draw(v, now, columns, rows)
	}
}

// Close implements tune.Closer: it shows the table once more, whole.
func (s *Status) Close(v tune.View) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.table = nil
	_, err := io.WriteString(s.out, s.text(v, "ran", v.Elapsed()))
	return err
}

// draw puts the table where the last one was. Lines are cut at the terminal's edge, and the table
// at its height, since what has scrolled away cannot be drawn over.
func (s *Status) draw(v tune.View, now time.Time, columns, rows int) {
	lines := strings.Split(strings.TrimSuffix(s.text(v, "running", s.elapsed+now.Sub(s.since)), "\n"), "\n")
	if rows > 2 && len(lines) > rows-1 {
		lines = append(lines[:rows-2], "...")
	}
	for i, line := range lines {
		if r := []rune(line); len(r) >= columns {
			lines[i] = string(r[:columns-1])
		}
	}
	s.erase()
	s.table = lines
	s.put()
}

// put writes the table as it was drawn last.
func (s *Status) put() {
	if s.lines = len(s.table); s.lines > 0 {
		fmt.Fprint(s.out, strings.Join(s.table, "\n")+"\n")
	}
}

// erase takes the table away that was drawn last, and what the terminal has echoed since, such as
// ^C.
func (s *Status) erase() {
	if s.lines > 0 {
		fmt.Fprintf(s.out, "\r\x1b[%dA\x1b[J", s.lines)
		s.lines = 0
	}
}

// text is the whole table. The verb says whether the search is running, or ran.
func (s *Status) text(v tune.View, verb string, elapsed time.Duration) string {
	var b strings.Builder
	b.WriteString("== Status ==\n")
	fmt.Fprintf(&b, "%s: %s for %s", s.title(), verb, elapsed.Round(time.Second))
	if text := goalText(v); text != "" {
		b.WriteString("; " + text)
	}
	plan := v.Plan()
	if plan.Suggester != "" {
		fmt.Fprintf(&b, "; %s, %s", plan.Suggester, plan.Scheduler)
	}
	if !plan.Deadline.IsZero() {
		fmt.Fprintf(&b, "; deadline %s", plan.Deadline.Format(time.DateTime))
	}
	b.WriteByte('\n')
	counts := make(map[tune.State]int)
	for _, state := range states {
		counts[state] = v.Count(state)
	}
	if plan.Trials >= 0 {
		fmt.Fprintf(&b, "%d of %s", v.Len(), plural.Of(plan.Trials, "trial"))
	} else {
		b.WriteString(plural.Of(v.Len(), "trial"))
	}
	if v.Len() > 0 {
		b.WriteString(": " + countText(counts))
	}
	if n := counts[tune.Running]; n > 0 {
		if plan.Parallel == tune.AsManyAsFit {
			fmt.Fprintf(&b, "; %s in use", plural.Of(n, "slot"))
		} else {
			fmt.Fprintf(&b, "; %d of %s in use", n, plural.Of(plan.Parallel, "slot"))
		}
	}
	b.WriteByte('\n')
	if plan.Missed != "" {
		b.WriteString(plan.Missed + "\n")
	}
	if best := bestTrial(v); best != nil {
		fmt.Fprintf(&b, "best: %s, %s %s%s, %s\n", best.Name(), v.Metric(), valueText(v.Result(best)), bestStep(best), paramText(best.Params))
	}
	if several(v) {
		fmt.Fprintf(&b, "Pareto front: %s\n", plural.Of(len(tune.Front(v)), "trial"))
	}
	if v.Len() > 0 {
		t := statusTable(v)
		b.WriteString(t.String())
	}
	return b.String()
}

// abandoned says which trials do not continue.
func (s *Status) abandoned(v tune.View, e tune.Event) string {
	var names []string
	for _, n := range e.Trials {
		if t := v.Trial(n); t != nil {
			names = append(names, t.Name())
		}
	}
	if len(names) == 0 || e.Rule == string(tune.ResumeNew) || e.Rule == string(tune.ErroredOnly) {
		return ""
	}
	return fmt.Sprintf("%s: not continued: %s", strings.Join(names, ", "), e.Rule)
}

// title is the study's name, or a word in its place.
func (s *Status) title() string {
	if s.Name == "" {
		return "study"
	}
	return s.Name
}

// line says in one line what a person wants to know of an event; "" if it is nothing.
func (s *Status) line(v tune.View, e tune.Event) string {
	switch e.Kind {
	case tune.EventStudy:
		return s.title() + ": begun"
	case tune.EventOpen:
		return fmt.Sprintf("%s: resumed, %s", s.title(), plural.Of(v.Len(), "trial"))
	case tune.EventExhausted:
		if e.Rule != "" {
			return s.title() + ": no more new trials: " + e.Rule
		}
		return s.title() + ": no more new trials"
	case tune.EventAbandon:
		return s.abandoned(v, e)
	case tune.EventHalt:
		return s.title() + ": to end: " + e.Rule
	case tune.EventAllocate:
		return s.moved(e)
	case tune.EventStart, tune.EventReport, tune.EventEnd:
	default:
		return ""
	}
	t := v.Trial(e.Trial)
	if t == nil {
		return ""
	}
	switch e.Kind {
	case tune.EventStart:
		return startLine(t, e)
	case tune.EventReport:
		return s.reportLine(v, t, e)
	}
	return endLine(v, t, e)
}

// startLine says that an attempt has started.
func startLine(t *tune.Trial, e tune.Event) string {
	at := ""
	if e.Location != "" {
		at = " on " + e.Location
	}
	if e.New {
		return fmt.Sprintf("%s: started%s with %s", t.Name(), at, paramText(e.Params))
	}
	return fmt.Sprintf("%s: attempt %d started%s%s", t.Name(), e.Attempt, at, continuation(e))
}

// reportLine says that a trial has become the best; "" if it has not, or was before: how far it
// comes is told when it ends.
func (s *Status) reportLine(v tune.View, t *tune.Trial, e tune.Event) string {
	x, ok := e.Metrics.Get(v.Metric())
	// s.value is NaN, which is the worst, before the first report.
	if !ok || several(v) || v.Violation(t) > 0 || v.Score(x) <= v.Score(s.value) {
		return ""
	}
	s.value = x
	if s.best == t.Number {
		return ""
	}
	s.best = t.Number
	return fmt.Sprintf("%s: best so far, %s %s at step %d", t.Name(), v.Metric(), valueText(x), e.Step)
}

// endLine says that an attempt has failed, or a trial has ended; "" if it goes on.
func endLine(v tune.View, t *tune.Trial, e tune.Event) string {
	if e.Outcome == tune.Broke {
		text := fmt.Sprintf("%s: attempt %d failed (%s): %s", t.Name(), e.Attempt, e.Failure, firstLine(e.Error))
		if e.Retry {
			text += "; tried again"
		}
		return text
	}
	if !t.State.Final() {
		return ""
	}
	text := fmt.Sprintf("%s: %s", t.Name(), t.State)
	if r, ok := t.Last(); ok {
		text += fmt.Sprintf(" after step %d", r.Step)
		for _, name := range judged(v) {
			if x, ok := r.Metrics.Get(name); ok {
				text += fmt.Sprintf(", %s %s", name, valueText(x))
			}
		}
	}
	if t.Rule != "" {
		text += " (" + t.Reason() + ")"
	}
	return text
}

// bestTrial is the best feasible trial; nil if there is none, or there are several objectives.
func bestTrial(v tune.View) *tune.Trial {
	if several(v) {
		return nil
	}
	var best *tune.Trial
	for t := range v.Trials() {
		if v.Violation(t) > 0 {
			continue
		}
		if x := v.Score(v.Result(t)); !math.IsInf(x, -1) && (best == nil || x > v.Score(v.Result(best))) {
			best = t
		}
	}
	return best
}

// bestStep is " at step 9" if the trial has more than one report.
func bestStep(t *tune.Trial) string {
	if t.Best < 0 || len(t.Reports) < 2 {
		return ""
	}
	return fmt.Sprintf(" at step %d", t.Reports[t.Best].Step)
}

// moved says which trials have other replicas now; "": none. s.mu is held.
func (s *Status) moved(e tune.Event) string {
	var parts []string
	for _, x := range e.Shares {
		if x.Pause || x.On.String() == s.placed[x.Trial] || len(x.On) == 0 && s.placed[x.Trial] == "" {
			continue
		}
		if s.placed == nil {
			s.placed = make(map[int]string)
		}
		s.placed[x.Trial] = x.On.String()
		parts = append(parts, fmt.Sprintf("trial %d %s", x.Trial, x.On))
	}
	if parts == nil {
		return ""
	}
	return fmt.Sprintf("%s: replicas: %s (%s)", s.title(), strings.Join(parts, "; "), e.Rule)
}
