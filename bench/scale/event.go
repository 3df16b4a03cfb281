package main

import "container/heap"

// A clock is a simulation's time, in seconds, and what is to come. Events at one time happen in the order in which they were
// asked for, so that a simulation repeats exactly.
type clock struct {
	now    float64
	events events
	asked  uint64
	done   uint64 // events that happened
}

type event struct {
	at    float64
	order uint64
	f     func()
}

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

// cores are the processors of a host: work goes in the order in which it came to the core that is free first, and is not
// interrupted.
type cores struct {
	*clock
	free    int
	waiting []job
	head    int // of waiting
	busy    float64
}

type job struct {
	seconds float64
	f       func()
}

// run works for so many seconds on one core and then calls f.
func (c *cores) run(seconds float64, f func()) {
	if seconds <= 0 {
		f()
		return
	}
	if c.free == 0 {
		c.waiting = append(c.waiting, job{seconds, f})
		return
	}
	c.free--
	c.start(job{seconds, f})
}

func (c *cores) start(j job) {
	c.busy += j.seconds
	c.after(j.seconds, func() {
		if c.head < len(c.waiting) {
			next := c.waiting[c.head]
			c.waiting[c.head] = job{}
			if c.head++; c.head == len(c.waiting) {
				c.waiting, c.head = c.waiting[:0], 0
			}
			c.start(next)
		} else {
			c.free++
		}
		j.f()
	})
}

// split works on as many cores as there are parts, and calls f when all have ended.
func (c *cores) split(seconds float64, parts int, f func()) {
	if parts <= 1 || seconds <= 0 {
		c.run(seconds, f)
		return
	}
	left := parts
	for range parts {
		c.run(seconds/float64(parts), func() {
			if left--; left == 0 {
				f()
			}
		})
	}
}

// A port is one direction of a host's link. Messages go one after the other, whole, in the order in which they came to it: with
// concurrent TCP connections they would share it, and the last of them end at the same time.
type port struct {
	bytesPerSecond float64
	free           float64 // when it is
	busy           float64
}

// take is when so many bytes that come now will have begun and ended.
func (p *port) take(now, bytes float64) (begin, end float64) {
	begin = max(now, p.free)
	d := bytes / p.bytesPerSecond
	p.free = begin + d
	p.busy += d
	return begin, p.free
}
