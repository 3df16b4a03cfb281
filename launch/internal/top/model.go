package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A Source asks the scheduler of the job.
type Source interface {
	// Ask puts a request once; raw is the answer as it came.
	Ask(ctx context.Context, q control.Request, into control.Answer) (raw []byte, err error)
	// Over reports whether the job's launcher has ended: nobody will start the scheduler again.
	Over() bool
}

// The messages of the model besides those of bubbletea.
type (
	// tickMsg comes every second, with the time.
	tickMsg time.Time
	// An answerMsg has the newest values and, where they were asked for, who waits for whom.
	answerMsg struct {
		asked     time.Time
		telemetry *control.Telemetry

		// why is nil if it was not asked for.
		why *control.Why

		// bytes is the size of both answers together.
		bytes int

		err error

		// over says, with err, that the job has ended.
		over bool
	}
	// An eventsMsg has new events.
	eventsMsg struct {
		events *control.Events
		err    error
	}
)

const (
	second = time.Second

	// bytesASecond bounds the answers, where that takes no longer than slowest.
	bytesASecond = 8 << 10

	// slowest is the time between two questions about a large job.
	slowest = 15 * time.Second

	// whyEvery is how many answers have values for each one that says who waits.
	whyEvery = 2

	eventsKept = 200

	// eventsAtOnce is how many are shown that happened before.
	eventsAtOnce = 20

	eventsWait = 10 * time.Second

	// eventsPause is the time between questions about a job that has ended, whose scheduler answers
	// at once.
	eventsPause = 5 * time.Second
)

// A model is the program. What it shows depends on its messages alone.
type model struct {
	// ctx is here because bubbletea's commands have none of their own.
	ctx context.Context

	source Source
	page   page

	asking bool

	// next is when to ask for values again.
	next time.Time

	answers int

	// after is the number of the newest event.
	after uint64

	// begun says that after is known.
	begun bool

	// listening says that a request for events is under way.
	listening bool

	listen time.Time
}

// newModel makes a model whose first questions Init starts.
func newModel(ctx context.Context, source Source, started, now time.Time) *model {
	return &model{ctx: ctx, source: source, page: page{started: started, now: now, width: 80, height: 24, styles: newStyles()}}
}

// Init asks at once.
func (m *model) Init() tea.Cmd { return tea.Batch(m.poll(), tick()) }

// tick makes the next tickMsg.
func tick() tea.Cmd { return tea.Tick(second, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// poll starts what is due.
func (m *model) poll() tea.Cmd {
	p := &m.page
	if p.paused || p.over {
		return nil
	}
	var commands []tea.Cmd
	if !m.asking && !p.now.Before(m.next) {
		m.asking = true
		commands = append(commands, m.ask(p.now, p.details, m.answers%whyEvery == 0))
	}
	if !m.listening && !p.now.Before(m.listen) {
		m.listening = true
		commands = append(commands, m.events())
	}
	return tea.Batch(commands...)
}

// ask asks for the newest values and, where why is set, who waits for whom. One question at a time
// is under way, so a scheduler that answers slowly is asked less often.
func (m *model) ask(now time.Time, details, why bool) tea.Cmd {
	return func() tea.Msg {
		a := answerMsg{asked: now, telemetry: &control.Telemetry{}}
		raw, err := m.source.Ask(m.ctx, control.Request{Op: control.OpTelemetry, Metrics: Names(details)}, a.telemetry)
		a.bytes, a.err = len(raw), err
		if err == nil && why {
			a.why = &control.Why{}
			raw, a.err = m.source.Ask(m.ctx, control.Request{Op: control.OpWhy}, a.why)
			a.bytes += len(raw)
		}
		a.over = a.err != nil && m.source.Over()
		return a
	}
}

// events waits for the next events. The first question is for the number of the newest one alone.
func (m *model) events() tea.Cmd {
	q := control.Request{Op: control.OpEvents, After: m.after, WaitMillis: eventsWait.Milliseconds()}

	// No event has so large a number, so the scheduler answers at once.
	if !m.begun {
		q.After, q.WaitMillis = 1<<53, 0
	}
	return func() tea.Msg {
		e := eventsMsg{events: &control.Events{}}
		_, e.err = m.source.Ask(m.ctx, q, e.events)
		return e
	}
}

// Update takes a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	p := &m.page
	switch msg := msg.(type) {
	case tickMsg:
		p.now = time.Time(msg)
		return m, tea.Batch(m.poll(), tick())
	case answerMsg:
		m.answered(msg)
	case eventsMsg:
		m.heard(msg)
		return m, m.poll()
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	}
	return m, nil
}

// answered takes the newest values, or the error in their place. After a long answer the next
// question comes later: a display must not become a load of the job's scheduler.
func (m *model) answered(a answerMsg) {
	p := &m.page
	m.asking = false
	m.next = a.asked.Add(second)
	if a.err != nil {
		p.over = p.over || a.over
		p.failure = a.err
		return
	}
	m.answers++
	if pause := min(slowest, time.Duration(a.bytes)*second/bytesASecond); pause > second {
		m.next = a.asked.Add(pause)
	}
	p.take(a)
}

// heard takes new events. The first answer has the number of the newest one alone; the next
// question is for a few before it, too.
func (m *model) heard(e eventsMsg) {
	p := &m.page
	m.listening = false
	switch {
	case e.err != nil:
		m.listen = p.now.Add(second)
	case !m.begun:
		m.begun = true
		if e.events.Last > eventsAtOnce {
			m.after = e.events.Last - eventsAtOnce
		}
	default:
		for _, x := range e.events.Events {
			p.events = push(p.events, x, eventsKept)
			m.after = x.Number
		}
	}
	if e.err == nil {
		p.phase, p.reason = e.events.Phase, clean(e.events.Reason)
		if p.ended() && len(e.events.Events) == 0 {
			m.listen = p.now.Add(eventsPause)
		}
	}
}

// key does what a key says.
func (m *model) key(key string) tea.Cmd {
	p := &m.page
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "?", "h":
		p.help = !p.help
	case "esc":
		switch {
		case p.help:
			p.help = false
		default:
			p.details = false
		}
	case "enter":
		p.details = !p.details && len(p.snapshot.Workers) > 0
		if p.details {
			// The values of this page are wanted now.
			m.next = p.now
			return m.poll()
		}
	case "s":
		p.order = (p.order + 1) % orders
		p.sort()
	case "p", "space":
		if p.paused = !p.paused; !p.paused {
			m.next = p.now
			return m.poll()
		}
	case "j", "down":
		p.move(1)
	case "k", "up":
		p.move(-1)
	case "pgdown":
		p.move(p.workerRows)
	case "pgup":
		p.move(-p.workerRows)
	case "g", "home":
		p.move(-len(p.snapshot.Workers))
	case "G", "end":
		p.move(len(p.snapshot.Workers))
	}
	return nil
}

// View is the screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.page.text())
	v.AltScreen = true
	v.WindowTitle = "launch top"
	return v
}
