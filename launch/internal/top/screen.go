package top

import (
	"fmt"
	"math"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// A section is a part of the screen: a headline, then rows of which some may be left out.
type section struct {
	// least is how many rows it should have, where there are so many.
	least int

	// rows is how many there are.
	rows int

	given int

	// draw makes the headline and so many rows.
	draw func(rows int) []string
}

// text is the screen, a line each of at most width cells, as many as the height.
func (p *page) text() string {
	top := p.header(!p.help)
	var body []string
	bottom := []string{p.footer()}
	room := p.height - len(top) - len(bottom)
	switch {
	case p.help:
		body = p.helpText()
	case p.details && p.chosen() >= 0:
		body = p.detailText(room)
	default:
		body = p.sections(room)
	}
	body = body[:min(len(body), max(0, room))]
	lines := append(top, body...)
	for len(lines)+len(bottom) < p.height {
		lines = append(lines, "")
	}
	lines = append(lines, bottom...)
	lines = lines[:min(len(lines), max(1, p.height))]
	limit := lipgloss.NewStyle().MaxWidth(max(1, p.width))
	for i, l := range lines {
		if lipgloss.Width(l) > p.width {
			lines[i] = limit.Render(l)
		}
	}
	return strings.Join(lines, "\n")
}

// header has the job, its numbers and, as notices, what a person should know before reading them.
func (p *page) header(notices bool) (lines []string) {
	t, st := p.history.last, &p.styles
	parts := []string{}
	if t == nil {
		parts = append(parts, st.title.Render("launch top"))
	} else {
		phase := t.Phase
		if p.phase != "" {
			phase = p.phase
		}
		workers, servers := p.snapshot.Present()
		parts = append(parts, st.title.Render("job "+clean(t.Job)), phase, long(p.now.Sub(p.started)),
			plural.Of(workers, "worker"), plural.Of(servers, "server"), fmt.Sprintf("generation %d", t.Generation))
	}
	if p.paused {
		parts = append(parts[:1], append([]string{st.alarm.Render("PAUSED")}, parts[1:]...)...)
	}
	lines = append(lines, p.list(parts))
	if j := p.snapshot.Job; t != nil {
		line := []string{amount(j.Steps) + " steps/s", amount(j.Examples) + " examples/s", "epoch " + whole(j.Epoch), "step " + whole(j.Step), "loss " + loss(j.Loss)}
		if !math.IsNaN(float64(j.LearningRate)) {
			line = append(line, "learning rate "+value(j.LearningRate))
		}
		lines = append(lines, p.list(line))
	}
	var wrapped []string
	for _, text := range p.notices() {
		wrapped = append(wrapped, wrap(text, p.width)...)
	}
	if notices {
		for _, l := range wrapped[:min(len(wrapped), max(1, p.height/5))] {
			lines = append(lines, st.alarm.Render(l))
		}
	}
	if p.height >= 20 {
		lines = append(lines, "")
	}
	return lines
}

// list joins as many of the parts as fit into a line.
func (p *page) list(parts []string) string {
	line := parts[0]
	for _, part := range parts[1:] {
		if lipgloss.Width(line)+3+lipgloss.Width(part) > p.width {
			break
		}
		line += " · " + part
	}
	return line
}

// restartShown is how long the page says that the scheduler was started again.
const restartShown = time.Minute

// notices are what is wrong.
func (p *page) notices() (list []string) {
	t := p.history.last
	old := ""
	if t != nil {
		old = fmt.Sprintf(" The numbers are %s old.", long(p.now.Sub(p.answered)))
	}
	switch {
	case p.over || p.ended():
		how := "The job is over."
		if p.ended() {
			how = "The job has " + p.phase + because(p.reason) + "."
		}
		list = append(list, how+old)
	case p.failure != nil && t == nil:
		list = append(list, "The scheduler does not answer yet: "+clean(p.failure.Error()))
	case p.failure != nil:
		list = append(list, "The scheduler does not answer; training goes on while it is started again."+old)
	case t == nil:
		list = append(list, "Waiting for the scheduler's first answer.")
	case !p.restarted.IsZero() && p.now.Sub(p.restarted) < restartShown:
		list = append(list, fmt.Sprintf("The scheduler was started again %s ago.", long(p.now.Sub(p.restarted))))
	}
	if t == nil {
		return list
	}
	if t.LeftOut > 0 {
		list = append(list, plural.Of(t.LeftOut, "more node")+" did not fit into the answer.")
	}
	for i, s := range t.Slow {
		if i == 2 {
			list = append(list, fmt.Sprintf("%d more workers are slow.", len(t.Slow)-i))
			break
		}
		s.Host = clean(s.Host)
		list = append(list, s.String()+".")
	}
	return list
}

// because puts a reason into brackets; an empty one is nothing.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// stale reports whether the numbers are those of another time.
func (p *page) stale() bool { return p.failure != nil || p.over || p.ended() }

// sections divide the room: each gets what it should have, from the top; then the rest goes to
// workers, servers and waits until all rows are shown, and to events.
func (p *page) sections(room int) (lines []string) {
	list := p.allSections()
	blank := 0
	if room >= 16 {
		blank = 1
	}
	left := room
	for i := range list {
		s := &list[i]
		s.given = min(s.least, s.rows)
		left -= 1 + s.given
		if i > 0 {
			left -= blank
		}
	}

	// A low terminal shows the upper ones.
	for i := len(list) - 1; i >= 0 && left < 0; i-- {
		s := &list[i]
		for s.given > 1 && left < 0 {
			s.given, left = s.given-1, left+1
		}
	}
	for i := range list {
		s := &list[i]
		more := max(0, min(left, s.rows-s.given))
		s.given, left = s.given+more, left-more
	}
	for i, s := range list {
		if i > 0 && blank > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, s.draw(s.given)...)
	}
	return lines
}

func (p *page) allSections() []section {
	waits := p.waitLines()
	list := []section{{least: 6, rows: len(p.snapshot.Workers), draw: p.workerTable}, {least: 2, rows: len(p.snapshot.Servers), draw: p.serverTable}}
	if len(waits) > 0 {
		list = append(list, section{least: 2, rows: len(waits), draw: func(rows int) []string {
			return append([]string{p.headline("Who waits for whom", rows, len(waits))}, waits[:rows]...)
		}})
	}
	return append(list, section{least: 2, rows: max(1, len(p.events)), draw: p.eventLines})
}

// headline is the title of a section, and how much of it is shown.
func (p *page) headline(title string, shown, all int) string {
	text := p.styles.title.Render(title)
	if shown < all {
		text += p.styles.faint.Render(fmt.Sprintf("  %d of %d", shown, all))
	}
	return text
}

func (p *page) waitLines() (lines []string) {
	if p.why == nil {
		return nil
	}
	for _, w := range p.why.Waits {
		lines = append(lines, cut(fmt.Sprintf("%s waits for %s, %s at %s", clean(w.Who), clean(w.For), span(control.Number(w.Seconds)), clean(w.At)), p.width))
	}
	if p.snapshot.Job.Steps > 0 {
		// The steps of working workers differ, because their heartbeats come at different times.
		return lines
	}
	for _, b := range p.why.Behind {
		lines = append(lines, cut("behind: "+clean(b), p.width))
	}
	return lines
}

func (p *page) eventLines(rows int) []string {
	lines := []string{p.headline("Events", min(rows, len(p.events)), len(p.events))}
	if len(p.events) == 0 {
		return append(lines, p.styles.faint.Render("none yet"))
	}
	for _, e := range p.events[max(0, len(p.events)-rows):] {
		lines = append(lines, cut(eventText(e), p.width))
	}
	return lines
}

// eventText is an event in a line, at its local time.
func eventText(e control.Event) string {
	return time.Unix(0, e.TimeNS).Format("15:04:05") + " " + EventText(e)
}

// EventText is an event in a line, without its time.
func EventText(e control.Event) string {
	words := []string{e.Action}
	switch {
	case e.Action == control.Ranks:
		words = append(words, "of the workers changed")
	case e.OfServer():
		words = append(words, fmt.Sprintf("server %d", e.Rank))
	case e.Workers > 0:
		words = append(words, plural.Of(e.Workers, "worker"))
	}

	// Reason is a sentence that names the process and its host.
	if (e.Action == control.Lost || e.OfWorker()) && e.Reason != "" {
		return strings.Join(append(words, clean(e.Reason)), " ")
	}
	if e.Role != "" && !e.OfServer() {
		words = append(words, e.Role)
	}
	if e.Host != "" {
		words = append(words, "on", clean(e.Host))
	}
	if e.PID != 0 {
		words = append(words, fmt.Sprintf("process %d", e.PID))
	}
	text := strings.Join(words, " ")
	if e.Reason != "" {
		text += ": " + clean(e.Reason)
	}
	return text
}

const keys = "s sort · enter details · p pause · j k scroll · ? help · q quit"

// footer is the last line, with the keys that do something now.
func (p *page) footer() string {
	text := keys
	switch {
	case p.help:
		text = "esc back · q quit"
	case p.details:
		text = "esc back · j k next worker · p pause · q quit"
	case p.width >= 100:
		text = keys + " · sorted by " + orderNames[p.order]
	}
	return p.styles.faint.Render(text)
}

// helpText is the page of the key "?".
func (p *page) helpText() []string {
	return strings.Split(strings.Trim(helpPage, "\n"), "\n")
}

const helpPage = `

s              sort workers by blame, rank, step time, examples/s or host
enter          details of the chosen worker; esc goes back
j k, arrows    choose another worker; also page up and down, home, end
p              pause and go on
ctrl+z         suspend; fg goes on
q              quit; the job goes on

EX/S           examples trained on in a second
TIME           of a step, from its begin to the next one's
PARTS          of that time: █ compute  ░ wait for the servers  ▒ data  · other
TIMES          of the last steps, one value a second
CAME LAST      share of the last 30 s' rounds to which this worker came last
LATE BY        how long after the last but one, on average
ROUND          of a server: time from the first contribution to the close
WAITING        requests that wait for a round
GRADIENTS HELD bytes of contributions to open rounds

Rates are those of the last 5 s.`

// wrap breaks text into lines of at most so many cells.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && lipgloss.Width(line)+1+lipgloss.Width(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
