package transport

import (
	"errors"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/wire"
)

// A Starter is a Caller that also sends small requests without a wait, so that one goroutine has many under way.
type Starter interface {
	Caller
	// Start sends a request if that needs no wait: it is small (16 KB with its payload), a connection is there and takes it, and
	// the requests in flight are not too many. Else it returns false and has done nothing; Call then does the same. The
	// payload is copied; answer, dst and p are in use until p.Done is called.
	Start(p *Started, request, answer wire.Message, dst []byte, payload ...[]byte) bool
}

// A Started is a request that Start has sent. It may be used again once Done was called.
type Started struct {
	// Done is called once for each request that was started, when Result may be called, from a goroutine that it must not hold
	// up; it may be called before Start returns.
	Done func()

	c    *Client
	cc   *clientConn
	id   uint32
	kind wire.Kind
	call call
	mu   sync.Mutex // held while the request is being read: a connection that breaks meanwhile must not end it yet
}

var _ Starter = (*Client)(nil)

// Start implements Starter.
func (c *Client) Start(p *Started, request, answer wire.Message, dst []byte, payload ...[]byte) bool {
	size := payloadSize(payload)
	if size > smallFrame {
		return false
	}
	cc := c.slots[(c.next.Load()+1)%uint32(len(c.slots))].conn.Load()
	if cc == nil {
		return false // the turn stays this slot's, for which Call dials
	}
	select {
	case c.turns <- struct{}{}:
	default:
		return false
	}
	p.c, p.cc, p.kind = c, cc, request.Kind()
	p.call = call{addr: c.addr, answer: answer, dst: dst, started: p}
	var ok bool
	p.mu.Lock()
	if p.id, ok = cc.register(&p.call); ok {
		taken, err := cc.w.small(p.id, request, size, payload)
		p.mu.Unlock()
		// A batch that is full or a frame beyond the limits is Call's matter.
		if (!taken || err != nil) && cc.take(p.id) != nil {
			ok = false
		}
	} else {
		p.mu.Unlock()
	}
	if !ok {
		<-c.turns
		p.cc = nil
		return false
	}
	c.next.Add(1)
	return true
}

// over ends the request, for whoever took its call out of the pending ones.
func (p *Started) over() {
	p.mu.Lock()
	p.mu.Unlock()
	<-p.c.turns
	p.Done()
}

// Result returns what Call would. It is called after Done.
func (p *Started) Result() ([]byte, error) {
	k := &p.call
	if k.err == nil {
		return k.filled, nil
	}
	var refusal *Refusal
	if errors.As(k.err, &refusal) {
		return nil, k.err
	}
	return nil, fmt.Errorf("transport: %v to %s: %w", p.kind, p.c.addr, k.err)
}

// GiveUp ends a request that was started, for a reason: Done is called at once, unless the answer is just being read, or was.
func (p *Started) GiveUp(reason error) {
	if k := p.cc.take(p.id); k != nil {
		k.err = fmt.Errorf("no answer: %w", reason)
		k.end()
	}
}

// Cut breaks the connection of a request that was given up a while ago and is not over: its answer has stopped half way. The
// caller sees to it that the request is not over.
func (p *Started) Cut() {
	p.cc.kill(errors.New("the peer stopped in the middle of an answer"))
}
