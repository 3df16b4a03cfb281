package top

import (
	"fmt"
	"math"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/paragon-train/paragon/internal/member/control"
)

// Titles of columns that are drawn, or whose width depends on what they show.
const (
	host       = "HOST"
	parts      = "PARTS"
	stepTimes  = "TIMES"
	throughput = "EXAMPLES/S"
	state      = "STATE"
)

var workerColumns = []column{
	{title: "RANK", least: 5, right: true}, {title: host, least: 9, most: 24}, {title: "PID", least: 7, right: true, rank: 12}, {title: "EPOCH", least: 5, right: true, rank: 9},
	{title: "STEP", least: 6, most: 7, right: true, rank: 3}, {title: "EX/S", least: 5, right: true}, {title: "TIME", least: 6, right: true},
	{title: "COMPUTE", least: 7, right: true, rank: 10}, {title: "WAIT", least: 7, right: true, rank: 10}, {title: "DATA", least: 7, right: true, rank: 10},
	{title: parts, least: 5, most: 24, rank: 4}, {title: "LOSS", least: 6, right: true, rank: 5}, {title: "CAME LAST", least: 4, right: true}, {title: "LATE BY", least: 6, right: true, rank: 1},
	{title: state, least: 7}, {title: stepTimes, least: 5, most: 40, rank: 2}, {title: throughput, least: 10, most: 40, rank: 8},
	{title: "SENT/S", least: 6, right: true, rank: 13}, {title: "RECV/S", least: 6, right: true, rank: 13},
}

// workerTable has the workers' headline and so many of them.
func (p *page) workerTable(rows int) []string {
	p.scroll(rows)
	workers := p.snapshot.Workers
	titles, hosts := titlesOf(workerColumns), []string{}
	if rows < len(workers) {
		titles[1] = fmt.Sprintf("%d–%d/%d", p.first+1, p.first+rows, len(workers))
	}
	for _, w := range workers {
		hosts = append(hosts, w.Host)
	}
	widths, gap := fit(wanting(workerColumns, host, append(hosts, titles[1])), p.width)
	width := map[string]int{}
	for i, c := range workerColumns {
		width[c.title] = widths[i]
	}
	lines := []string{p.styles.head.Render(row(workerColumns, widths, gap, titles))}
	if len(workers) == 0 {
		return append(lines, p.styles.faint.Render("no worker yet"))
	}
	var times, examples [][]float64
	for _, w := range workers {
		times, examples = append(times, w.stepTimes), append(examples, w.throughput)
	}
	timeTop, examplesTop := sparkTop(width[stepTimes], times...), sparkTop(width[throughput], examples...)
	for _, w := range workers[p.first:min(len(workers), p.first+rows)] {
		cells := []string{rank(w.Rank), w.Host, fmt.Sprint(w.PID), whole(w.Epoch), whole(w.Step), amount(w.Examples), span(w.StepTime), span(w.Compute), span(w.Wait), span(w.Data),
			partsBar(w.StepTime, w.Compute, w.Wait, w.Data, max(0, width[parts])), loss(w.Loss), percent(w.Last), span(w.Gap), w.stateText(),
			sparkline(w.stepTimes, timeTop, max(0, width[stepTimes])), sparkline(w.throughput, examplesTop, max(0, width[throughput])), size(w.Sent), size(w.Received)}
		chosen := w.Node == p.cursor
		if chosen {
			cells[0] = "›" + pad(cells[0], max(1, widths[0]-1), true)
		}
		lines = append(lines, p.paint(row(workerColumns, widths, gap, cells), chosen, w.Slow, w.old()))
	}
	return lines
}

// titlesOf are the titles of columns.
func titlesOf(columns []column) (titles []string) {
	for _, c := range columns {
		titles = append(titles, c.title)
	}
	return titles
}

// paint colours a row of a table: as a whole, or the bars in it.
func (p *page) paint(text string, chosen, slow, old bool) string {
	st := &p.styles
	switch {
	case chosen:
		return st.chosen.Render(text)
	case p.stale() || old:
		return st.faint.Render(text)
	case slow:
		return st.alarm.Render(text)
	}
	return colour(text, func(cell string) *lipgloss.Style {
		switch {
		case cell == computeCell:
			// A sparkline's highest level is no part of a bar.
			return &st.compute
		case cell == waitCell:
			return &st.wait
		case cell == dataCell:
			return &st.data
		}
		return nil
	})
}

// colour renders runs of the same cell in the cell's style.
func colour(text string, style func(cell string) *lipgloss.Style) string {
	var b strings.Builder
	run := ""
	var of *lipgloss.Style
	flush := func() {
		if of != nil && run != "" {
			run = of.Render(run)
		}
		b.WriteString(run)
		run = ""
	}
	for _, r := range text {
		if s := style(string(r)); s != of {
			flush()
			of = s
		}
		run += string(r)
	}
	flush()
	return b.String()
}

func rank(r int32) string {
	if r < 0 {
		return unknown
	}
	return fmt.Sprint(r)
}

// oldMillis is the age of values that are not shown as present ones: heartbeats come about once a
// second.
const oldMillis = 5_000

// old reports whether the newest record of the process is too old to be what it does now.
func (p *Process) old() bool { return p.AgeMillis > oldMillis || p.AgeMillis < 0 }

// stateText is the state: what is more than that a worker counts, or that it takes part.
func (w *Worker) stateText() string {
	switch {
	case w.State != control.NodeCounts:
		return w.State
	case w.AgeMillis > oldMillis:
		return "silent"
	case w.Slow:
		return "slow"
	}
	return "ok"
}

func (s *Server) stateText() string {
	switch {
	case s.State != control.NodeCounts:
		return s.State
	case s.AgeMillis > oldMillis:
		return "silent"
	}
	return "ok"
}

var serverColumns = []column{
	{title: "SERVER", least: 6, right: true}, {title: host, least: 6, most: 24}, {title: "PID", least: 7, right: true, rank: 12},
	{title: "ROUNDS/S", least: 8, right: true}, {title: "ROUND", least: 6, right: true}, {title: "WAITING", least: 7, right: true}, {title: "GRADIENTS HELD", least: 6, right: true},
	{title: "VALUES", least: 6, right: true, rank: 5}, {title: "SENT/S", least: 6, right: true}, {title: "RECV/S", least: 6, right: true}, {title: state, least: 7},
}

// serverTable has the servers' headline and the first of them.
func (p *page) serverTable(rows int) []string {
	servers := p.snapshot.Servers
	titles, hosts := titlesOf(serverColumns), []string{}
	if rows < len(servers) {
		titles[1] = fmt.Sprintf("%d of %d", rows, len(servers))
	}
	for _, s := range servers {
		hosts = append(hosts, s.Host)
	}
	widths, gap := fit(wanting(serverColumns, host, append(hosts, titles[1])), p.width)
	lines := []string{p.styles.head.Render(row(serverColumns, widths, gap, titles))}
	if len(servers) == 0 {
		return append(lines, p.styles.faint.Render("no server yet"))
	}
	for _, s := range servers[:min(rows, len(servers))] {
		cells := []string{rank(s.Rank), s.Host, fmt.Sprint(s.PID), amount(s.Rounds), span(s.RoundTime), whole(s.Waiting), size(s.Held), size(s.Values), size(s.Sent), size(s.Received), s.stateText()}
		lines = append(lines, p.paint(row(serverColumns, widths, gap, cells), false, false, s.old()))
	}
	return lines
}

// sum is that of known numbers.
func sum(list ...control.Number) (total float64) {
	for _, x := range list {
		if !math.IsNaN(float64(x)) {
			total += float64(x)
		}
	}
	return total
}
