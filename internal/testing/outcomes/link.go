package outcomes

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A link is the scheduler's process with all requests to it: those of nodes, of users, and of the
// launcher, whose messages may be late, lost and repeated.
type link struct {
	w *world
	// core is nil while no scheduler listens; process is where it runs.
	core    Scheduler
	process *proc
	journal Journal
	// ending says that the job has ended, and the scheduler's process is about to.
	ending bool

	// serial numbers requests.
	serial uint64
	// waits has who waits for the answer to a request.
	waits map[uint64]func(m wire.Message)
	asks  []*pendingAsk
	// dropped are requests whose senders have gone while the scheduler stood still.
	dropped []uint64

	// cut: nothing comes through between scheduler and launcher. deaf: answers are lost. echo:
	// each message is repeated at once.
	cut, deaf, echo bool
}

// A pendingAsk is a request of the launcher, or of a user, that has no answer yet.
type pendingAsk struct {
	id   int
	body string
	done func(answer string, err error)
	// request is the one under way; 0: none is.
	request uint64
	over    bool
	// user says that a user asks, whose messages are neither lost nor late.
	user bool
}

func (l *link) begin(w *world) {
	l.w, l.waits = w, make(map[uint64]func(wire.Message))
	if w.job.Kept {
		l.journal = make(Journal)
	}
}

// start is a scheduler's process from its start on.
func (l *link) start(p *proc) {
	p.after(between(p.chance, 20*time.Millisecond, 200*time.Millisecond), func() {
		if l.process != nil && l.process != p {
			// Another one has the port.
			p.end(process.Exit{Code: 1})
			return
		}
		l.process, l.ending = p, false
		l.core = l.w.cores.Scheduler(l.w.job, l.w.now, l.journal)
		l.w.happened("scheduler listens")
		l.w.step(Listening{Process: p.number, Line: l.w.address() + ":4711"})
		if l.process != p {
			return
		}
		l.step(0, nil, "")
		for _, o := range slices.Clone(l.w.processes) {
			if o.node != nil && o.state == running {
				o.after(between(l.w.draw("redial", o.role, o.host, o.ordinal, p.ordinal), 20*time.Millisecond, 400*time.Millisecond), o.node.again)
			}
		}
		l.w.after(10*time.Millisecond, l.resend)
	})
}

// reachable reports whether the scheduler takes requests.
func (l *link) reachable() bool { return l.core != nil && !l.process.frozen }

// awake is a scheduler that stood still: it gets what was sent to it meanwhile.
func (l *link) awake(p *proc) {
	if l.process != p {
		return
	}
	l.step(0, nil, "")
	dropped := l.dropped
	l.dropped = nil
	for _, request := range dropped {
		l.step(request, nil, "")
	}
	for _, o := range slices.Clone(l.w.processes) {
		if o.node != nil && o.state == running {
			o.after(between(l.w.draw("again", o.role, o.host, o.ordinal), time.Millisecond, 50*time.Millisecond), o.node.again)
		}
	}
	l.w.after(60*time.Millisecond, l.resend)
}

// lost is the end of the scheduler's process.
func (l *link) lost(p *proc) {
	if l.process != p {
		return
	}
	l.process, l.core, l.dropped = nil, nil, nil
	clear(l.waits)
	for _, a := range l.asks {
		a.request = 0
	}
	for _, o := range l.w.processes {
		if o.node != nil {
			o.node.unreachable()
		}
	}
}

// stop tells the scheduler to end.
func (l *link) stop(p *proc) {
	if l.process != p {
		p.after(10*time.Millisecond, func() { p.end(exitOf(15)) })
		return
	}
	l.step(0, nil, "the scheduler was stopped")
	p.after(time.Second, func() { p.end(process.Exit{Code: 1}) })
}

// send sends the scheduler a message. It returns the number of the request; 0: the scheduler is out
// of reach.
func (l *link) send(m wire.Message, answered func(m wire.Message)) uint64 {
	if !l.reachable() {
		return 0
	}
	l.serial++
	number := l.serial
	l.waits[number] = answered
	l.step(number, m, "")
	return number
}

// drop says that nobody waits for the answer to a request any more.
func (l *link) drop(request uint64) {
	if l.waits[request] == nil {
		return
	}
	delete(l.waits, request)
	switch {
	case l.reachable():
		l.step(request, nil, "")
	case l.core != nil:
		l.dropped = append(l.dropped, request)
	}
}

// step steps the scheduler. Its answers come at the same moment, after all that is under way.
func (l *link) step(request uint64, m wire.Message, stop string) {
	p := l.process
	said := l.core.Step(l.w.now, request, m, stop)
	for _, a := range said.Answers {
		if answered := l.waits[a.Request]; answered != nil {
			delete(l.waits, a.Request)
			l.w.after(0, func() {
				// With a scheduler's process its answers are lost.
				if l.process == p {
					answered(a.Message)
				}
			})
		}
	}
	for _, r := range said.Reports {
		l.w.after(0, func() { l.w.step(Reported{Process: p.number, Report: r}) })
	}
	if said.Phase <= wire.PhaseRunning {
		return
	}
	code := 0
	if said.Phase == wire.PhaseFailed {
		code = 1
	}
	if !l.ending {
		l.ending = true
		p.after(3*time.Second, func() { p.end(process.Exit{Code: code}) })
	}
	if said.Settled {
		p.after(20*time.Millisecond, func() { p.end(process.Exit{Code: code}) })
	}
}

// ask takes a request of the launcher.
func (l *link) ask(a Ask) {
	x := &pendingAsk{id: a.ID, body: a.Body}
	x.done = func(answer string, err error) {
		if x.over {
			return
		}
		x.over = true
		l.asks = slices.DeleteFunc(l.asks, func(o *pendingAsk) bool { return o == x })
		if a.ID != 0 {
			l.w.say("  gets %.200s %v", answer, err)
			l.w.step(Answered{ID: a.ID, Answer: answer, Err: err})
		}
	}
	l.asks = append(l.asks, x)
	if a.Limit > 0 {
		l.w.beside(a.Limit, func() {
			l.drop(x.request)
			x.done("", errors.New("the scheduler does not answer"))
		})
	}
	l.w.beside(a.Pause+l.w.latency, func() { l.deliver(x) })
}

// deliver sends a request of the launcher, if it can be.
func (l *link) deliver(x *pendingAsk) {
	if x.over || !l.reachable() || l.cut && !x.user || x.request != 0 {
		return
	}
	l.w.say("  asks %s", x.body)
	m := &wire.Control{Request: x.body}
	if l.echo && !x.user {
		l.send(m, func(wire.Message) {})
	}
	x.request = l.send(m, func(m wire.Message) {
		switch {
		case x.over:
		case x.user:
			x.done(answerOf(m))
		case l.cut || l.deaf:
			// The answer is lost. The request is sent again when the link is whole.
			x.request = 0
		default:
			l.w.after(l.w.latency, func() { x.done(answerOf(m)) })
		}
	})
}

func answerOf(m wire.Message) (string, error) {
	switch m := m.(type) {
	case *wire.Report:
		return m.Answer, nil
	case *wire.Nack:
		return "", fmt.Errorf("refused: %v", m.Code)
	}
	return "", fmt.Errorf("answer %v", m.Kind())
}

// resend sends again what has no answer.
func (l *link) resend() {
	for _, x := range slices.Clone(l.asks) {
		l.deliver(x)
	}
}

// cancel cancels a request of the launcher.
func (l *link) cancel(id int) {
	for _, x := range slices.Clone(l.asks) {
		if x.id == id && id != 0 {
			l.drop(x.request)
			l.w.after(0, func() { x.done("", errors.New("cancelled")) })
		}
	}
}

// disturb disturbs the link for a time.
func (l *link) disturb(how *bool, d time.Duration) {
	if *how {
		return
	}
	*how = true
	l.w.after(d, func() {
		*how = false
		l.w.happened("the link is whole again")
		l.resend()
	})
}

// user lets a user ask for something.
func (l *link) user(c Command) {
	x := &pendingAsk{body: l.w.cores.Request(c), user: true}
	k := &command{text: c.String(), answer: "no answer"}
	l.w.commands = append(l.w.commands, k)
	x.done = func(answer string, err error) {
		if x.over {
			return
		}
		x.over = true
		l.asks = slices.DeleteFunc(l.asks, func(o *pendingAsk) bool { return o == x })
		if k.answer = "no answer"; err == nil {
			k.answer = l.w.cores.Answered(answer)
		}
		l.w.happened("%s: %s %.150s", c, k.answer, answer)
	}
	l.asks = append(l.asks, x)
	l.w.beside(10*time.Second, func() {
		l.drop(x.request)
		x.done("", errors.New("the scheduler does not answer"))
	})
	l.deliver(x)
}
