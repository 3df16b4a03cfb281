package trialjob

import (
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/member/control"
)

// clues are what the lines of a trial's processes tell of its end: why it failed, or why nothing
// was a report.
type clues struct {
	metric string
	// said has the newest lines of the processes, messages those of launch.
	said, messages tail
	// last is the last line of a standard output that is not blank.
	last string
	// erred has the standard errors.
	erred map[lines.Source]*errorLines
	// reports counts lines with metrics.
	reports int
	// stepless is the first line of rank 0 with metrics and without a step. One with the
	// study's metric (named) takes the place of one without.
	stepless string
	named    bool
	// misplaced is the first line with metrics and a step on rank 0's standard error.
	misplaced string
}

// newClues looks for lines with the metric; "": for lines with any.
func newClues(metric string) clues {
	return clues{metric: metric, erred: make(map[lines.Source]*errorLines)}
}

// note takes note of a line; found says that it is a report.
func (c *clues) note(l control.Line, found bool) {
	rank0 := l.Role == control.Worker && l.Rank == 0
	switch {
	case l.Stream == control.Stderr:
		c.noteError(l, rank0)
	case strings.TrimSpace(l.Text) != "":
		c.last = l.Text
	}
	switch {
	case found:
		c.reports++
	case rank0 && l.Stream == control.Stdout && !c.named && control.WithoutStep(l.Text):
		c.named = c.metric != "" && strings.Contains(" "+l.Text, " "+c.metric+"=")
		if c.named || c.stepless == "" {
			c.stepless = l.Text
		}
	}
}

// noteError takes note of a line of a standard error.
func (c *clues) noteError(l control.Line, rank0 bool) {
	from := lines.Source{Role: l.Role, Rank: l.Rank}
	if c.erred[from] == nil {
		c.erred[from] = &errorLines{}
	}
	c.erred[from].add(l.Text)
	if rank0 && c.misplaced == "" {
		if _, ok := control.ParseMetrics(l.Text); ok {
			c.misplaced = l.Text
		}
	}
}

// errorOf is the line of a process that says what went wrong; "" if it printed nothing to its
// standard error.
func (c *clues) errorOf(role string, rank int) string {
	if e := c.erred[lines.Source{Role: role, Rank: rank}]; e != nil {
		return e.text()
	}
	return ""
}

// errorOfLaunch is the line of launch's messages that says what went wrong; "" if there is none.
func (c *clues) errorOfLaunch() string {
	var all errorLines
	c.messages.lines(all.add)
	return all.text()
}

// noMetrics is why no line was a report; "": one was.
func (c *clues) noMetrics() string {
	switch {
	case c.reports > 0:
		return ""
	case c.misplaced != "":
		return fmt.Sprintf("%s: its line %q is on the standard error: print metrics on the standard output", NoReport, c.misplaced)
	case c.stepless != "":
		return fmt.Sprintf("%s: its line %q has no step: print the step beside the metrics, as in accuracy=0.5 step=1", NoReport, c.stepless)
	}
	return fmt.Sprintf("%s: no line that it printed has metrics and a step, as in accuracy=0.5 step=1", NoReport)
}
