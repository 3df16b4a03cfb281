package transport

import (
	"errors"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Starter is a Caller that also sends small requests without a wait, so that one goroutine has
// many under way.
type Starter interface {
	Caller
	// Start sends a request if it need not wait for that: the request is small (16 KB with its
	// payload), a connection is open and accepts it, and MaxInFlight is not reached. Otherwise
	// it returns false and has done nothing; then use Call. The payload is copied; answer, dst
	// and p are in use until p.Done is called.
	Start(p *Started, request, answer wire.Message, dst []byte, payload ...[]byte) bool
}

// A Started is a request that Start has sent. It may be reused after Done was called.
type Started struct {
	// Done is called once for each started request, when Result may be called. It must not
	// block, and it may be called before Start returns.
	Done func()

	c    *Client
	cc   *clientConn
	id   uint32
	kind wire.Kind
	call call
	// mu is held while the request is being read: a connection that breaks meanwhile must not
	// end it yet.
	mu sync.Mutex
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
		// The turn at this slot is kept: Call dials it.
		return false
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
		taken, err := cc.w.writeSmall(p.id, request, size, payload)
		p.mu.Unlock()
		// Call handles a full batch, and a frame beyond the limits.
		if (!taken || err != nil) && cc.takeCall(p.id) != nil {
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

// end ends the request. The caller has taken its call out of the pending ones. It waits until Start
// has read the request.
func (p *Started) end() {
	p.mu.Lock()
	p.mu.Unlock() //nolint:staticcheck // there is nothing to do but to wait
	<-p.c.turns
	p.Done()
}

// Result returns what Call would return. Call it after Done.
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

// GiveUp cancels a started request for a reason: Done is called at once, unless the answer is being
// read or was read.
func (p *Started) GiveUp(reason error) {
	if k := p.cc.takeCall(p.id); k != nil {
		k.err = fmt.Errorf("no answer: %w", reason)
		k.end()
	}
}

// Cut closes the connection of a request that was cancelled a while ago and has not ended, because
// its answer stopped half way. The caller must know that the request has not ended.
func (p *Started) Cut() {
	p.cc.kill(errors.New("the peer stopped in the middle of an answer"))
}
