package outcomes

import (
	"container/heap"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A world is one job with all that is around it. Everything happens in one goroutine, one thing
// after the other, in the order of a fake clock.
type world struct {
	plan  *Plan
	job   *Job
	cores Cores
	now   time.Time
	begun time.Time

	queue  queue
	serial uint64
	// foreground counts the things in the queue that must happen before there is a rest.
	foreground int
	// active is when something happened last that can be seen from outside.
	active time.Time

	launcher Launcher
	over     bool
	// stuck says that the cores did something again and again at the same moment.
	stuck bool
	// latency is how long each message between launcher and scheduler takes.
	latency  time.Duration
	link     link
	machines map[int]*machine
	hosts    map[string]*host
	files    *Files
	// processes are all that were started, in the order of their starts.
	processes []*proc
	byNumber  map[uint32]*proc
	calls     map[int]*call

	// finishing says that training is over: workers end as soon as they can.
	finishing bool
	wish      string
	commands  []*command

	tracing bool
	trace   []string
	rests   []string
}

// leastLatency is how long a message takes at least. Cores that ask the same again and again do not
// make time stand still.
const leastLatency = 50 * time.Microsecond

// A happening is something that will happen.
type happening struct {
	at         time.Time
	serial     uint64
	background bool
	do         func()
}

type queue []*happening

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, k int) bool {
	if !q[i].at.Equal(q[k].at) {
		return q[i].at.Before(q[k].at)
	}
	return q[i].serial < q[k].serial
}
func (q queue) Swap(i, k int) { q[i], q[k] = q[k], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*happening)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}

// A command is what a user asked, and what became of it.
type command struct {
	text, answer string
}

// A host is a machine that the launcher may connect to.
type host struct {
	name string
	// down says that it is lost, refuses that it takes no new connection.
	down, refuses bool
	// slow is how much longer everything takes that starts there.
	slow time.Duration
	// crashes is how many of the next workers there end before they register.
	crashes int
	// connects counts connections, started the processes of each role: chance goes by them.
	connects int
	started  map[string]int
}

// A machine is a connection to a host.
type machine struct {
	id           int
	host         *host
	lost, closed bool
}

// A call is a Connect that is under way.
type call struct {
	cancelled bool
	answer    func(err error)
}

func newWorld(p *Plan, latency time.Duration, cores Cores) *world {
	w := &world{plan: p, job: &p.Job, cores: cores, latency: latency + leastLatency, now: time.Unix(1000, 0), machines: make(map[int]*machine), hosts: make(map[string]*host),
		files: &Files{}, byNumber: make(map[uint32]*proc), calls: make(map[int]*call)}
	w.begun, w.active = w.now, w.now
	w.link.begin(w)
	for _, h := range w.job.Workers {
		if i := w.files.find(h.String()); i >= 0 {
			w.files.listed[i].Slots++
		} else if w.job.Elastic {
			h.Slots = 1
			w.files.listed = append(w.files.listed, h)
		}
	}
	return w
}

// draw is the chance that belongs to some keys, whatever happened before.
func (w *world) draw(keys ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, keys...)
	return rand.New(rand.NewPCG(w.plan.Seed, h.Sum64()))
}

// between is a time from least on. Its smallest parts differ for each draw, so that things which
// chance decides never fall together.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

func (w *world) say(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf("%8.3f %s", w.now.Sub(w.begun).Seconds(), fmt.Sprintf(format, args...)))
	}
}

// happened notes that something happened that can be seen from outside.
func (w *world) happened(format string, args ...any) {
	w.active = w.now
	w.say(format, args...)
}

// after lets something happen later; a rest waits for it.
func (w *world) after(d time.Duration, do func()) {
	w.foreground++
	w.put(d, do, false)
}

// beside lets something happen later that no rest waits for.
func (w *world) beside(d time.Duration, do func()) { w.put(d, do, true) }

func (w *world) put(d time.Duration, do func(), background bool) {
	w.serial++
	heap.Push(&w.queue, &happening{w.now.Add(d), w.serial, background, do})
}

// run lets time pass until done says so, or the limit.
func (w *world) run(limit time.Time, done func() bool) {
	same := 0
	for !done() {
		next, who := limit, 0
		sooner := func(t time.Time, x int) {
			if !t.IsZero() && t.Before(next) {
				next, who = t, x
			}
		}
		if len(w.queue) > 0 {
			sooner(w.queue[0].at, 1)
		}
		if w.launcher != nil && !w.over {
			sooner(w.launcher.Next(), 2)
		}
		if w.link.reachable() {
			sooner(w.link.core.Next(), 3)
		}
		if next.After(w.now) {
			w.now, same = next, 0
		} else if same++; same > 20_000 {
			who := []string{"", "processes and requests", "the launcher", "the scheduler"}[who]
			w.say("time stands still for %s", who)
			w.rests, w.over, w.stuck = append(w.rests, "time stands still for "+who), true, true
			return
		}
		switch who {
		case 0:
			return
		case 1:
			h := heap.Pop(&w.queue).(*happening)
			if !h.background {
				w.foreground--
			}
			h.do()
		case 2:
			w.step(nil)
		case 3:
			w.link.step(0, nil, "")
		}
	}
}

// rest lets time pass until nothing has happened for long, or the job is over.
func (w *world) rest() {
	limit := w.now.Add(longest)
	for !w.over && w.now.Before(limit) {
		until := w.active.Add(quiet)
		if w.foreground > 0 || until.After(limit) {
			until = limit
		}
		w.run(until, func() bool {
			return w.over || w.foreground == 0 && !w.now.Before(w.active.Add(quiet)) || w.foreground == 0 && until == limit
		})
		if w.foreground == 0 && !w.now.Before(w.active.Add(quiet)) {
			return
		}
	}
}

// step hands an event to the launcher and does what it wants.
func (w *world) step(event any) {
	if w.over {
		return
	}
	for _, a := range w.launcher.Step(w.now, event) {
		w.act(a)
	}
}

func (w *world) act(action any) {
	switch a := action.(type) {
	case Connect:
		w.connect(a)
	case Cancel:
		if c := w.calls[a.ID]; c != nil && !c.cancelled {
			c.cancelled = true
			w.after(0, func() { c.answer(errors.New("cancelled")) })
		} else {
			w.link.cancel(a.ID)
		}
	case CloseMachine:
		w.closeMachine(a.Machine)
	case ChooseAddress:
		w.after(0, func() { w.step(AddressChosen{Address: w.address()}) })
	case Announce:
		w.after(0, func() { w.step(Announced{}) })
	case Start:
		w.start(a)
	case CancelStart:
		if p := w.byNumber[a.Process]; p != nil && p.state == starting {
			w.after(0, func() { p.notStarted(errors.New("cancelled")) })
		}
	case Signal:
		if p := w.byNumber[a.Process]; p != nil {
			w.after(0, func() { p.signal(a.Signal) })
		}
	case Ask:
		w.link.ask(a)
	case ListHost:
		w.files.list(a.Host, a.Named)
	case CloseAll:
		w.closeAll()
	case End:
		w.over = true
	default:
		panic(fmt.Sprintf("action %T is not known", a))
	}
}

// address is where everybody reaches the scheduler.
func (w *world) address() string {
	switch {
	case !w.job.Remote:
		return "127.0.0.1"
	case w.job.SchedulerHost != nil:
		return "10.0.0.8"
	}
	return "10.0.0.9"
}

func (w *world) host(name string) *host {
	h := w.hosts[name]
	if h == nil {
		h = &host{name: name, started: make(map[string]int)}
		w.hosts[name] = h
	}
	return h
}

// launching is the launching machine, by its name as a host.
const launching = "launch"

func (w *world) connect(a Connect) {
	name := launching
	if a.Host != nil {
		name = a.Host.String()
	}
	h := w.host(name)
	h.connects++
	d := between(w.draw("connect", name, h.connects), 5*time.Millisecond, 300*time.Millisecond) + h.slow
	c := &call{}
	answered := false
	c.answer = func(err error) {
		if answered {
			return
		}
		answered = true
		delete(w.calls, a.ID)
		if err == nil && !a.Check {
			w.machines[a.ID] = &machine{id: a.ID, host: h}
		}
		w.happened("connected to %s: %v", name, err)
		e := Connected{ID: a.ID, Address: fmt.Sprint("10.0.0.", 10+a.ID%200), Launcher: "10.0.0.9", Err: err}
		if name == launching {
			e.Address, e.Launcher = "127.0.0.1", ""
		}
		w.step(e)
	}
	w.calls[a.ID] = c
	w.after(d, func() {
		switch {
		case h.refuses:
			c.answer(errors.New("launch: connection refused"))
		case h.down:
			w.after(3*time.Second, func() { c.answer(errors.New("launch: no route to host")) })
		default:
			c.answer(nil)
		}
	})
}

func (w *world) closeMachine(id int) {
	m := w.machines[id]
	m.closed = true
	w.happened("connection to %s is closed", m.host.name)
	for _, p := range slices.Clone(w.processes) {
		if p.machine == m {
			p.end(exitOf(9))
		}
	}
	w.after(10*time.Millisecond, func() { w.step(MachineClosed{Machine: id}) })
}

func (w *world) closeAll() {
	w.happened("all connections are closed")
	w.after(50*time.Millisecond, func() {
		for _, p := range slices.Clone(w.processes) {
			p.end(exitOf(9))
		}
		w.after(300*time.Millisecond, func() { w.step(AllClosed{}) })
	})
}

// lose loses a host. Its nodes' connections end, too, unless it falls silent.
func (w *world) lose(h *host, silently bool) {
	if h.down {
		return
	}
	h.down = true
	w.happened("host %s is lost", h.name)
	late := time.Duration(0)
	if silently {
		late = 2 * time.Second
	}
	for _, p := range slices.Clone(w.processes) {
		if p.machine.host == h {
			p.die(silently)
		}
	}
	w.after(late, func() {
		for _, id := range sortedKeys(w.machines) {
			if m := w.machines[id]; m.host == h && !m.closed && !m.lost {
				m.lost = true
				w.step(MachineLost{Machine: id})
			}
		}
		for _, p := range slices.Clone(w.processes) {
			if p.machine.host == h && p.machine.lost {
				p.lostWithHost()
			}
		}
	})
}

// comeBack ends the loss of a host.
func (w *world) comeBack(h *host) {
	if !h.down {
		return
	}
	// The launcher has heard by then that it was lost.
	w.after(2500*time.Millisecond, func() {
		h.down = false
		w.happened("host %s is back", h.name)
		if i := w.files.find(h.name); w.job.DialIn && i >= 0 {
			w.step(Edited{Added: []hosts.Host{w.files.listed[i]}})
		}
	})
}
