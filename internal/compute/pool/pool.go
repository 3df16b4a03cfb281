// Package pool runs the pieces of one computation over a fixed set of threads.
//
// A Pool owns threads-1 goroutines; the caller of Run is the last thread. Run(n, f) calls f(0) to
// f(n-1), each once, in no promised order, and returns when all have returned; RunThreads also
// tells f its thread. Pieces are handed out one by one, so uneven pieces balance. Results do not
// depend on the number of threads as long as f(i) writes what no other piece touches.
//
// One Run at a time: a Pool belongs to one computation (one executor), whose steps follow each
// other. f must not call Run of the same pool. Run allocates nothing; keep f in a variable made
// once, since a function literal that captures variables is allocated where it is written.
//
// Threads that have nothing to do spin, since the next Run of a training step mostly follows at
// once, and then sleep. They spin for as long as waking one of them takes, which the pool measures:
// then waiting costs at most twice what the better of both would have.
package pool

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	openBit = 1 << 31

	// genUnit is one generation in state, which has the generation in the high half, openBit, and
	// the number of joined helpers in the low bits.
	genUnit = 1 << 32

	// spinChecks is how many looks at state are between two looks at the clock.
	spinChecks = 64

	// What a wake-up is taken to cost: at first, at least and at most. On a virtual machine
	// whose processor has to be scheduled it is some hundred microseconds at times.
	firstWake = 40 * time.Microsecond
	leastWake = 10 * time.Microsecond
	mostWake  = 150 * time.Microsecond
)

// A Pool is a fixed number of threads. New makes one; the zero value runs everything on the caller.
type Pool struct {
	helpers []*helper

	// running says that a Run is under way. It guards against two at once.
	running atomic.Bool

	// The Run under way. Written by Run while state is closed and no helper has joined, so
	// helpers that have joined read them freely.
	n int64
	f task

	_     [64]byte
	next  atomic.Int64 // next piece to hand out
	_     [56]byte
	state atomic.Uint64
	_     [56]byte

	// wake is about how many nanoseconds a wake-up takes.
	wake atomic.Int64

	// idle tells a waiting Run that the last helper of a closed run is done.
	idle chan struct{}

	waiting atomic.Bool
	closed  atomic.Bool
	done    sync.WaitGroup

	record func(parts []time.Duration) // see Record
	used   func() time.Duration

	mu       sync.Mutex // guards panicked and panicVal
	panicked bool
	panicVal any
}

// A task is what a Run calls: one of the two functions is nil.
type task struct {
	plain  func(i int)
	thread func(thread, i int)
}

func (t *task) call(thread, i int) {
	if t.thread != nil {
		t.thread(thread, i)
	} else {
		t.plain(i)
	}
}

type helper struct {
	// thread is from 1. The caller's is 0.
	thread int

	// called is when it was woken, written before the token is sent.
	called time.Time

	asleep atomic.Bool

	// wake has one token for each asleep that Run or Close turned off.
	wake chan struct{}

	_ [48]byte
}

// New returns a pool of the given number of threads, the caller's included. Less than 1 means one
// for each CPU the program may use (GOMAXPROCS).
func New(threads int) *Pool {
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &Pool{idle: make(chan struct{}, 1)}
	p.wake.Store(int64(firstWake))
	for i := range threads - 1 {
		h := &helper{thread: i + 1, wake: make(chan struct{}, 1)}
		p.helpers = append(p.helpers, h)
		p.done.Add(1)
		go p.help(h)
	}
	return p
}

// Threads is the number of threads, the caller's included.
func (p *Pool) Threads() int { return len(p.helpers) + 1 }

// Close ends the pool's goroutines and returns when they are gone. Closing twice is harmless; Run
// after Close panics.
func (p *Pool) Close() {
	if p.closed.Swap(true) {
		return
	}
	p.wakeUp(len(p.helpers))
	p.done.Wait()
}

// Run calls f(0) to f(n-1) over the pool's threads and returns when all have returned. A panic in f
// is raised again in the caller, after the pieces under way have ended; pieces not yet begun are
// dropped.
func (p *Pool) Run(n int, f func(i int)) { p.run(n, task{plain: f}) }

// RunThreads is Run that also tells f on which thread a piece runs, from 0 to Threads()-1, so that
// pieces may use memory of their thread's.
func (p *Pool) RunThreads(n int, f func(thread, i int)) { p.run(n, task{thread: f}) }

func (p *Pool) run(n int, f task) {
	if n <= 0 {
		return
	}
	if p.record != nil {
		p.runRecorded(n, f)
		return
	}
	if n == 1 || len(p.helpers) == 0 {
		for i := range n {
			f.call(0, i)
		}
		return
	}
	if p.closed.Load() {
		panic("pool: Run after Close")
	}
	if p.running.Swap(true) {
		panic(fmt.Sprintf("pool: Run of %d pieces while another Run is under way", n))
	}
	p.n, p.f = int64(n), f
	p.next.Store(0)
	p.state.Store((p.state.Load()&^(genUnit-1) + genUnit) | openBit)
	p.wakeUp(n - 1)
	p.work(0)
	p.finish()
	p.f = task{}
	p.running.Store(false)
	if p.panicked {
		v := p.panicVal
		p.panicked, p.panicVal = false, nil
		panic(v)
	}
}

// work takes pieces until none is left. A panic is kept for Run and ends the hand-out.
func (p *Pool) work(thread int) {
	defer func() {
		if v := recover(); v != nil {
			p.mu.Lock()
			if !p.panicked {
				p.panicked, p.panicVal = true, v
			}
			p.mu.Unlock()
			p.next.Store(p.n)
		}
	}()
	for {
		i := p.next.Add(1) - 1
		if i >= p.n {
			return
		}
		p.f.call(thread, int(i))
	}
}

// finish closes the run to late helpers and waits for those that joined.
func (p *Pool) finish() {
	for {
		s := p.state.Load()
		if p.state.CompareAndSwap(s, s&^openBit) {
			break
		}
	}
	active := func() bool { return p.state.Load()&(openBit-1) != 0 }
	for p.spinWhile(active) {
		p.waiting.Store(true)
		if active() || !p.waiting.CompareAndSwap(true, false) {
			// Every turn of waiting from true to false by a helper sends one token.
			<-p.idle
		}
		// The token may come from a helper of an earlier run that was late to look at
		// waiting: look again.
	}
}

// help is a helper's life: wait for an open run not yet seen, join, work, leave.
func (p *Pool) help(h *helper) {
	defer p.done.Done()

	// seen is the generation of the last run that this thread joined.
	var seen uint64
	for {
		fresh := func() bool {
			s := p.state.Load()
			return s&openBit != 0 && s/genUnit != seen || p.closed.Load()
		}
		if p.spinWhile(func() bool { return !fresh() }) {
			h.asleep.Store(true)
			if !fresh() || !h.asleep.CompareAndSwap(true, false) {
				<-h.wake
				p.wake.Store(int64(wakeEstimate(time.Duration(p.wake.Load()), time.Since(h.called))))
			}
		}
		if p.closed.Load() {
			return
		}
		s := p.state.Load()
		if s&openBit == 0 || s/genUnit == seen || !p.state.CompareAndSwap(s, s+1) {
			continue
		}
		seen = s / genUnit
		p.work(h.thread)
		if s := p.state.Add(^uint64(0)); s&(2*openBit-1) == 0 && p.waiting.CompareAndSwap(true, false) {
			p.idle <- struct{}{}
		}
	}
}

// wakeUp wakes at most n sleeping helpers.
func (p *Pool) wakeUp(n int) {
	for _, h := range p.helpers {
		if n == 0 {
			return
		}
		if h.asleep.CompareAndSwap(true, false) {
			h.called = time.Now()
			h.wake <- struct{}{}
		}
		n--
	}
}

// wakeEstimate is the estimate of what a wake-up takes after one more took d: a mean in which older
// ones count less.
func wakeEstimate(old, d time.Duration) time.Duration {
	return min(max((7*old+min(d, mostWake))/8, leastWake), mostWake)
}

// spinWhile looks at cond for about as long as a wake-up takes and returns its last answer.
func (p *Pool) spinWhile(cond func() bool) bool {
	if !cond() {
		return false
	}
	limit := time.Duration(p.wake.Load())
	for start := time.Now(); time.Since(start) < limit; {
		for range spinChecks {
			if !cond() {
				return false
			}
		}
	}
	return cond()
}
