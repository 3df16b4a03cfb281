package main

import "container/heap"

// A clock is a simulation's time, in seconds, and what is to come. Events at one time happen in the
// order in which they were asked for, so that a simulation repeats exactly.
type clock struct {
	now    float64
	events events
	asked  uint64

	// done counts the events that happened.
	done uint64
}

// An event happens at its time. Order numbers events: of several at one time the one that was asked
// for first comes first.
type event struct {
	at    float64
	order uint64
	f     func()
}

// events, tasks and messages are heaps: what comes next is at the top.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// after calls f when so many seconds have passed.
func (c *clock) after(seconds float64, f func()) { c.at(c.now+seconds, f) }

// at calls f at a time that is not over.
func (c *clock) at(time float64, f func()) {
	c.asked++
	heap.Push(&c.events, event{max(time, c.now), c.asked, f})
}

// run lets time pass until nothing is to come.
func (c *clock) run() {
	for len(c.events) > 0 {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		c.done++
		e.f()
	}
}

// cores are the processors of a host. Tasks that run share them alike, as an operating system's
// slices do: with more tasks than cores each goes on at the same part of a core's speed.
type cores struct {
	*clock
	n       int
	running tasks

	// count is the number of running tasks, each core's by itself.
	count int

	// work is what a task that ran from the beginning would have done at the time since, in seconds
	// of a core. A task ends when work reaches its end.
	work, since float64

	// asked numbers the tasks.
	asked uint64

	// next is the number of the latest wake-up: earlier ones are void.
	next uint64

	// busy adds up the seconds of all cores.
	busy float64
}

// A task is some that begin together and have the same to do.
type task struct {
	// end is the work of the cores at which they end.
	end float64

	order uint64
	count int
	f     func()
}

type tasks []task

func (t tasks) Len() int { return len(t) }
func (t tasks) Less(i, j int) bool {
	return t[i].end < t[j].end || t[i].end == t[j].end && t[i].order < t[j].order
}
func (t tasks) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *tasks) Push(x any)   { *t = append(*t, x.(task)) }
func (t *tasks) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = task{}
	*t = (*t)[:last]
	return x
}

// run works for so many seconds on each of so many cores and then calls f.
func (c *cores) run(seconds float64, count int, f func()) {
	if seconds <= 0 {
		f()
		return
	}
	c.advance()
	c.asked++
	heap.Push(&c.running, task{c.work + seconds, c.asked, count, f})
	c.count += count
	c.wake()
}

func (c *cores) speed() float64 { return min(1, float64(c.n)/float64(c.count)) }

// advance brings work up to now.
func (c *cores) advance() {
	if passed := c.now - c.since; passed > 0 && c.count > 0 {
		c.work += passed * c.speed()
		c.busy += passed * float64(min(c.count, c.n))
	}
	c.since = c.now
	if c.count == 0 {
		// Sums stay exact if they begin anew.
		c.work = 0
	}
}

// wake is there when the next task ends.
func (c *cores) wake() {
	if len(c.running) == 0 {
		return
	}
	c.next++
	this := c.next
	c.after(max(0, c.running[0].end-c.work)/c.speed(), func() {
		if this != c.next {
			return
		}
		c.advance()
		c.work = max(c.work, c.running[0].end)
		var ended []task
		for len(c.running) > 0 && c.running[0].end <= c.work*(1+1e-12) {
			t := heap.Pop(&c.running).(task)
			c.count -= t.count
			ended = append(ended, t)
		}
		if c.count == 0 {
			c.work = 0
		}
		c.wake()
		for _, t := range ended {
			t.f()
		}
	})
}

// A process runs tasks of a host in the order in which they came, at most so many at a time.
type process struct {
	cores *cores
	lanes int

	// queue has what waits, from head on.
	queue []waiting
	head  int
}

// A waiting is what has no lane yet.
type waiting struct {
	seconds float64
	count   int
	f       func()
}

// run works for so many seconds on each of count cores, in one lane, and then calls f: count
// processes that do the same are simulated as one.
func (p *process) run(seconds float64, count int, f func()) {
	if seconds <= 0 {
		f()
		return
	}
	if p.lanes == 0 {
		p.queue = append(p.queue, waiting{seconds, count, f})
		return
	}
	p.lanes--
	p.start(waiting{seconds, count, f})
}

// start runs in a lane. At its end the lane goes to what waits, before f is called: f may ask for
// more.
func (p *process) start(w waiting) {
	p.cores.run(w.seconds, w.count, func() {
		if p.head < len(p.queue) {
			next := p.queue[p.head]
			p.queue[p.head] = waiting{}
			if p.head++; p.head == len(p.queue) {
				p.queue, p.head = p.queue[:0], 0
			}
			p.start(next)
		} else {
			p.lanes++
		}
		w.f()
	})
}

// split works on as many lanes as there are parts, and calls f when all have ended.
func (p *process) split(seconds float64, parts int, f func()) {
	left := parts
	for range parts {
		p.run(seconds/float64(parts), 1, func() {
			if left--; left == 0 {
				f()
			}
		})
	}
}

// A port is one direction of a host's link. Messages go one after the other, whole; of those that
// wait the one of the earliest layer goes first, as connections send them. With concurrent TCP
// connections they would share it, and the last of them end at the same time.
type port struct {
	*clock
	bytesPerSecond float64
	taken          bool
	waiting        messages
	asked          uint64
	busy           float64
}

// A message waits for the port.
type message struct {
	layer int
	order uint64
	bytes float64
	begun func(begin, end float64)
}

type messages []message

func (m messages) Len() int { return len(m) }
func (m messages) Less(i, j int) bool {
	return m[i].layer < m[j].layer || m[i].layer == m[j].layer && m[i].order < m[j].order
}
func (m messages) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *messages) Push(x any)   { *m = append(*m, x.(message)) }
func (m *messages) Pop() any {
	last := len(*m) - 1
	x := (*m)[last]
	(*m)[last] = message{}
	*m = (*m)[:last]
	return x
}

// take calls begun when so many bytes of a layer begin, with the time at which they will have
// ended.
func (p *port) take(layer int, bytes float64, begun func(begin, end float64)) {
	p.asked++
	heap.Push(&p.waiting, message{layer, p.asked, bytes, begun})
	if !p.taken {
		p.start()
	}
}

// start sends what is at the top, and goes on with the next one after it.
func (p *port) start() {
	m := heap.Pop(&p.waiting).(message)
	d := m.bytes / p.bytesPerSecond
	p.taken = true
	p.busy += d
	p.after(d, func() {
		p.taken = false
		if len(p.waiting) > 0 {
			p.start()
		}
	})
	m.begun(p.now, p.now+d)
}
