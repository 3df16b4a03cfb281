package bridge

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/kvstore"
)

// An exchange is one under way. It is used again, so that the next one takes no memory.
type exchange struct {
	packet exchangePacket
	// begun is when it came, if Python awaits its answer.
	begun time.Time
	// plan is the one that it has entries of; nil: none.
	plan    *plan
	entries []kvstore.Entry
	parts   []planPart
	counts  []*keyCount
	by      contribution
	// refused is why it ends at once.
	refused error
	// call makes it, by what the turn pushes by.
	call func(p kvstore.Pusher, entries []kvstore.Entry) error
}

// exchanges are those of a session.
type exchanges struct {
	tracker tracker
	// words are the completion words, once the session has joined.
	words atomic.Pointer[[]uint64]
	// work hands an exchange to a goroutine that has none.
	work chan *exchange
	wg   sync.WaitGroup

	// mu guards free, exchanges that have ended.
	mu   sync.Mutex
	free []*exchange

	// head is that of an answer. It belongs to the goroutine that sends answers.
	head [answerBytes]byte
}

// startExchange begins an exchange. Only the reader of packets calls it; an error is of the packet.
func (s *session) startExchange(packet []byte) error {
	p, err := decodeExchange(packet)
	if err != nil {
		return err
	}
	full, err := s.exchanges.tracker.begin(p.number, p.flags&flagAnswer != 0)
	if err != nil {
		return err
	}
	x := s.takeExchange()
	x.packet = p
	if p.flags&flagAnswer != 0 {
		x.begun = time.Now()
	}
	if full {
		x.refused = fmt.Errorf("bridge: exchange %d: %w: %d are under way, which is the most; wait for one", p.number, errFull, maxExchanges)
	} else if p.count > 0 {
		x.refused = s.prepare(x)
	}
	select {
	case s.exchanges.work <- x:
	default:
		s.exchanges.wg.Go(func() { s.work(x) })
	}
	return nil
}

// takeExchange returns an exchange that is not used.
func (s *session) takeExchange() *exchange {
	e := &s.exchanges
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.free); n > 0 {
		x := e.free[n-1]
		e.free = e.free[:n-1]
		return x
	}
	x := &exchange{}
	x.call = func(p kvstore.Pusher, entries []kvstore.Entry) error { return x.push(s.ctx, p, entries) }
	return x
}

// prepare finds what an exchange needs. It is called as the packet comes, before those behind it, so
// that an exchange belongs to the turn in which Python sent it.
func (s *session) prepare(x *exchange) error {
	store, err := s.member.get()
	if err != nil {
		return err
	}
	if x.by, err = s.turns.contribution(store, x.packet.weight, x.packet.examples, x.packet.factor); err != nil {
		return fmt.Errorf("bridge: exchange %d: %w", x.packet.number, err)
	}
	return s.plans.claim(x)
}

// work makes an exchange, and then others as they come, until the session ends.
func (s *session) work(x *exchange) {
	for {
		s.exchange(x)
		select {
		case x = <-s.exchanges.work:
		case <-s.ctx.Done():
			return
		}
	}
}

// exchange makes one exchange.
func (s *session) exchange(x *exchange) {
	err := x.refused
	if err == nil && x.plan != nil {
		err = x.by.push(x.entries, x.counts, x.call)
	}
	s.finish(x, err)
}

// push is an exchange by the pusher of its turn. A single key needs none of what brings many
// together.
func (x *exchange) push(ctx context.Context, p kvstore.Pusher, entries []kvstore.Entry) error {
	only := x.packet.flags&flagPushOnly != 0
	switch {
	case len(entries) == 1 && only:
		return p.Push(ctx, entries[0].Key, entries[0].Grads...)
	case len(entries) == 1:
		return p.PushPull(ctx, entries[0].Key, entries[0].Grads, entries[0].Outs)
	case only:
		return p.PushMany(ctx, entries)
	}
	return p.PushPullMany(ctx, entries)
}

// finish tells Python that an exchange has ended. Once its word is written Python may use its slots
// and exchange its keys again.
func (s *session) finish(x *exchange, err error) {
	moved := s.settle(x)
	s.plans.unclaim(s, x)
	number, answer := x.packet.number, x.packet.flags&flagAnswer != 0
	if answer {
		s.reports.waited(x.begun)
	}
	only := ""
	if len(x.parts) == 1 {
		only = x.parts[0].key.name
	}
	*x = exchange{call: x.call}
	s.exchanges.mu.Lock()
	s.exchanges.free = append(s.exchanges.free, x)
	s.exchanges.mu.Unlock()

	state, failure := uint64(stateDone), (*errorText)(nil)
	if moved {
		state = stateNoted
	}
	if err != nil {
		state, failure = stateFailed, errorOf(err)
		failure.Number = number
		if failure.Key == "" {
			failure.Key = shorten(only, maxKeyText)
		}
		if !answer {
			s.note(failedNote{Note: "failed", Number: number, Error: failure}, -1)
		}
	}
	if words := s.exchanges.words.Load(); words != nil {
		atomic.StoreUint64(&(*words)[number%wordCount], number*4+state)
	}
	s.exchanges.tracker.end(number, failure)
	s.sendAnswers()
}

// settle gives Python the slots of an exchange back: those that a server has kept move.
func (s *session) settle(x *exchange) (moved bool) {
	for i := range x.parts {
		part := &x.parts[i]
		moved = s.settleSlot(part.region, part.number, part.grad) || moved
		if part.out != part.grad {
			moved = s.settleSlot(part.region, part.number, part.out) || moved
		}
	}
	return moved
}

// sendAnswers sends the answers that are due, in order. One goroutine does, and the others go on,
// also where Python does not read.
func (s *session) sendAnswers() {
	e := &s.exchanges
	if !e.tracker.mustSend() {
		return
	}
	for {
		a, ok := e.tracker.take()
		if !ok {
			return
		}
		var err error
		if a.failure == nil {
			putAnswer(&e.head, a.number, stateDone)
			err = s.conn.send(e.head[:], -1)
		} else {
			putAnswer(&e.head, a.number, stateFailed)
			err = s.conn.sendJSON(string(e.head[:]), a.failure, -1)
		}
		if err != nil {
			s.log.Debug("the answer of an exchange could not be sent", "exchange", a.number, "error", err)
		}
	}
}

// wordsOf are the completion words in region 0.
func wordsOf(r *region) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(r.each[0]))), wordCount)
}
