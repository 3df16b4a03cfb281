package bridge

import (
	"context"
	"fmt"
	"sync"
)

const (
	// maxExchanges is the most exchanges under way.
	maxExchanges = 512
	// trackerRoom is how many exchanges may lie between the oldest one under way and the newest.
	trackerRoom = wordCount
	// maxDue is the most answers that Python leaves unread, besides those in the socket.
	maxDue = wordCount
)

// A tracker knows which exchanges are under way, and which answers are due. Answers come in the
// order of exchanges, each when its exchange and all before it have ended.
type tracker struct {
	mu sync.Mutex
	// last is the number of the newest exchange. All up to ended have ended.
	last, ended uint64
	// underWay counts those that have not ended.
	underWay int
	// none is closed when none is under way; nil: nobody waits for that.
	none chan struct{}
	ring [trackerRoom]tracked
	// failure is the first error that no answer had.
	failure *errorText
	// due are the answers to be sent, and sending says that a goroutine sends them.
	due     []dueAnswer
	sending bool
}

// tracked is what a tracker knows of one exchange.
type tracked struct {
	answer, over bool
	failure      *errorText
}

// A dueAnswer is an answer to be sent.
type dueAnswer struct {
	number  uint64
	failure *errorText
}

// begin takes the next exchange. full says that there are too many under way, so that it must end at
// once; an error says that the other end speaks another protocol.
func (t *tracker) begin(number uint64, answer bool) (full bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number != t.last+1 {
		return false, fmt.Errorf("bridge: %w: exchange %d came behind %d", errProtocol, number, t.last)
	}
	if len(t.due) > maxDue {
		return false, fmt.Errorf("bridge: %w: exchange %d came, and %d answers were not read", errProtocol, number, len(t.due))
	}
	if number-t.ended > trackerRoom {
		return false, fmt.Errorf("bridge: %w: exchange %d came, and exchange %d is under way; want at most %d under way", errProtocol, number, t.ended+1, maxExchanges)
	}
	t.last = number
	full = t.underWay >= maxExchanges
	t.underWay++
	t.ring[number%trackerRoom] = tracked{answer: answer}
	return full, nil
}

// end says that an exchange has ended.
func (t *tracker) end(number uint64, failure *errorText) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay--
	if t.underWay == 0 && t.none != nil {
		close(t.none)
		t.none = nil
	}
	x := &t.ring[number%trackerRoom]
	x.over, x.failure = true, failure
	for t.ended < t.last {
		x := &t.ring[(t.ended+1)%trackerRoom]
		if !x.over {
			return
		}
		t.ended++
		if t.failure == nil {
			t.failure = x.failure
		}
		if x.answer {
			t.due = append(t.due, dueAnswer{t.ended, t.failure})
			t.failure = nil
		}
		*x = tracked{}
	}
}

// await returns when no exchange is under way.
func (t *tracker) await(ctx context.Context) error {
	t.mu.Lock()
	if t.underWay == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.none == nil {
		t.none = make(chan struct{})
	}
	none := t.none
	t.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mustSend reports whether the caller is to send the answers that are due, until take has none.
func (t *tracker) mustSend() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sending || len(t.due) == 0 {
		return false
	}
	t.sending = true
	return true
}

// take returns the next answer to be sent.
func (t *tracker) take() (a dueAnswer, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.due) == 0 {
		t.sending = false
		return a, false
	}
	a = t.due[0]
	t.due = t.due[:copy(t.due, t.due[1:])]
	return a, true
}
