package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A call is one request waiting for its answer. It is in its connection's pending map from before
// its frame is written until a goroutine takes it out: the reader, to fill it; kill, to fail it; or
// its caller, to cancel it. Only the goroutine that took it out may use it; the reader and kill
// then end it, once.
type call struct {
	addr   string
	answer wire.Message
	dst    []byte
	filled []byte
	err    error
	// since is the number of frames that the connection had read when the call was made.
	since uint64
	// done gets a token at the end; nil if started is set.
	done chan struct{}
	// started is told of the end of a request of Start; else it is nil.
	started *Started
	// lent is the memory that the call lends its peer; nil: none.
	lent *lentCall
}

// newCall returns a call without a request. Its channel has room for the one token that end puts
// there.
func newCall() *call { return &call{done: make(chan struct{}, 1)} }

// end tells the caller that the call is over. No other goroutine uses it after that.
func (k *call) end() {
	if k.started != nil {
		k.started.end()
	} else {
		k.done <- struct{}{}
	}
}

// A clientConn is one connection of a Client.
type clientConn struct {
	addr string
	nc   net.Conn
	// by is nc if it is a lender, and keys if it has limited keys.
	by   lender
	keys limitedKeys
	w    *frameWriter
	// dead is closed by kill.
	dead chan struct{}

	// mu guards all below.
	mu      sync.Mutex
	pending map[uint32]*call
	lastID  uint32
	// frames is the number of answers read.
	frames uint64
	// retired says that the connection takes no new calls, and is closed when the last one has
	// ended.
	retired bool
	// err is why the connection was killed.
	err error
}

func newClientConn(addr string, nc net.Conn, count traffic) *clientConn {
	cc := &clientConn{addr: addr, nc: nc, dead: make(chan struct{}), pending: make(map[uint32]*call)}
	cc.by, _ = nc.(lender)
	cc.keys, _ = nc.(limitedKeys)
	cc.w = newFrameWriter(nc, cc.dead, false, count)
	return cc
}

// limitedKeys are those of a connection. They may seal so much and no more; spent reports that they
// have.
type limitedKeys interface{ spent() bool }

// usable reports whether new calls may use the connection. One whose keys are spent is retired: it
// is closed when its last call has ended.
func (cc *clientConn) usable() bool {
	spent := cc.keys != nil && cc.keys.spent()
	cc.mu.Lock()
	cc.retired = cc.retired || spent
	usable := cc.err == nil && !cc.retired
	empty := spent && len(cc.pending) == 0
	cc.mu.Unlock()
	if empty {
		cc.kill(errors.New("its keys are spent"))
	}
	return usable
}

// register adds the call to the pending map. It must come before the first byte of the request, or
// an early answer would find no call.
func (cc *clientConn) register(k *call) (id uint32, ok bool) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.err != nil || cc.retired {
		return 0, false
	}
	cc.lastID++
	// After 2³² calls an ID may still be in use.
	for cc.pending[cc.lastID] != nil {
		cc.lastID++
	}
	cc.pending[cc.lastID] = k
	k.since = cc.frames
	return cc.lastID, true
}

// takeCall takes a call out of the pending map; it returns nil if another goroutine has taken it.
func (cc *clientConn) takeCall(id uint32) *call {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	k := cc.pending[id]
	delete(cc.pending, id)
	return k
}

// kill closes the connection and fails all calls on it.
func (cc *clientConn) kill(err error) {
	cc.mu.Lock()
	if cc.err != nil {
		cc.mu.Unlock()
		return
	}
	if !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrConnection, err)
	}
	cc.err = err
	pending := cc.pending
	cc.pending = nil
	cc.mu.Unlock()
	close(cc.dead)
	cc.nc.Close()
	for _, k := range pending {
		k.err = err
		k.end()
	}
}

// lend lends the payload and the place for its answer, if the answer has a payload. It returns
// false if the payload must be sent.
func (cc *clientConn) lend(id uint32, k *call, request wire.Message, payload [][]byte) bool {
	if cc.by == nil || len(payload) != 1 || len(k.dst) == 0 {
		return false
	}
	k.lent = cc.by.lendCall(payload[0], k.dst)
	if k.lent == nil {
		return false
	}
	k.lent.request.Message = request
	if taken, err := cc.w.writeSmall(id, &k.lent.request, loanSize, k.lent.payload[:]); taken && err == nil {
		cc.w.count.sent(len(payload[0]))
		return true
	}
	k.endLoan()
	return false
}

// endLoan takes the call's memory back. Only the caller of the call does it, before it returns.
func (k *call) endLoan() {
	if k.lent != nil {
		k.lent.request.Message = nil
		k.lent.end()
		k.lent = nil
	}
}

// send writes the request. After an error the call is over and its memory is no longer used.
func (cc *clientConn) send(ctx context.Context, id uint32, k *call, request wire.Message, size int, payload [][]byte) error {
	if cc.lend(id, k, request, payload) {
		return nil
	}
	taken, err := cc.w.writeSmall(id, request, size, payload)
	begun := false
	if !taken && err == nil {
		begun, err = cc.w.writeLarge(ctx, id, request, orderOf(request), size, payload)
	}
	if err == nil {
		return nil
	}
	if begun {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		cc.kill(fmt.Errorf("a %v was cut off: %w", request.Kind(), err))
	}
	// If another goroutine has the call, it is most likely in kill.
	if cc.takeCall(id) == nil {
		cc.awaitEnd(k)
		// The answer may have come before the shared write failed.
		if k.err == nil {
			k.done <- struct{}{}
			return nil
		}
		if ctx.Err() == nil {
			err = k.err
		}
	}
	return err
}

// awaitEnd waits until the goroutine that took the call out has ended it.
func (cc *clientConn) awaitEnd(k *call) {
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-k.done:
	case <-late.C:
		cc.kill(errors.New("the peer stopped in the middle of an answer"))
		<-k.done
	}
}

// wait waits for the answer, or cancels the call when ctx ends.
func (cc *clientConn) wait(ctx context.Context, id uint32, k *call) ([]byte, error) {
	select {
	case <-k.done:
		return k.filled, k.err
	case <-ctx.Done():
	}
	if cc.takeCall(id) != nil {
		cc.retireIfSilent(ctx, k)
		return nil, fmt.Errorf("no answer: %w", ctx.Err())
	}
	// The answer is being read into the caller's memory.
	cc.awaitEnd(k)
	if k.err != nil && errors.Is(k.err, ErrConnection) {
		return nil, fmt.Errorf("no whole answer: %w", ctx.Err())
	}
	return k.filled, k.err
}

// retireIfSilent retires a connection on which nothing has come since the call that timed out was
// made: the peer may have vanished without closing it. Calls that wait there may go on waiting; new
// calls use other connections.
func (cc *clientConn) retireIfSilent(ctx context.Context, k *call) {
	cc.mu.Lock()
	if cc.frames == k.since && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		cc.retired = true
	}
	empty := cc.retired && len(cc.pending) == 0
	cc.mu.Unlock()
	if empty {
		cc.kill(errors.New("the peer was silent"))
	}
}

// read reads answers until the connection breaks, and returns why it did.
func (cc *clientConn) read() error {
	br := newFrameReader(cc.nc, cc.w.count)
	var header [wire.HeaderSize]byte
	var head []byte
	for {
		if err := br.full(header[:]); err != nil {
			return err
		}
		h, err := wire.ParseHeader(header[:])
		if err != nil {
			return err
		}
		cc.mu.Lock()
		known := int32(h.ID-cc.lastID) <= 0
		k := cc.pending[h.ID]
		delete(cc.pending, h.ID)
		cc.frames++
		done := cc.retired && len(cc.pending) == 0
		cc.mu.Unlock()
		if !known {
			return fmt.Errorf("an answer to request %d, which was never sent", h.ID)
		}
		// The call was cancelled: its answer is skipped.
		if k == nil {
			err = br.discard(h.Head + h.Payload)
		} else {
			head, err = k.readAnswer(br, h, head)
			if err != nil {
				k.err = fmt.Errorf("%w: %w", ErrConnection, err)
			}
			k.end()
		}
		if err != nil {
			return err
		}
		if done {
			return errors.New("retired")
		}
		if cap(head) > keepScratch {
			head = nil
		}
	}
}

// readAnswer reads the frame into the call. It returns an error of the connection; the call's own
// error is in k.err.
func (k *call) readAnswer(br *frameReader, h wire.Header, scratch []byte) ([]byte, error) {
	if cap(scratch) < h.Head {
		scratch = make([]byte, h.Head)
	}
	scratch = scratch[:h.Head]
	if err := br.full(scratch); err != nil {
		return scratch, err
	}
	if k.err = k.decodeHead(h, scratch); k.err != nil {
		return scratch, br.discard(h.Payload)
	}
	if h.Lent {
		// The peer has written the answer there.
		k.filled = k.dst
		br.count.received(len(k.filled))
		return scratch, nil
	}
	k.filled = k.dst[:h.Payload]
	return scratch, br.full(k.filled)
}

// decodeHead decodes the head and checks that the payload fits.
func (k *call) decodeHead(h wire.Header, head []byte) error {
	if h.Kind == wire.KindNack && k.answer.Kind() != wire.KindNack {
		var n wire.Nack
		if err := wire.DecodeHead(&n, head); err != nil {
			return err
		}
		return &Refusal{Addr: k.addr, Code: n.Code, Generation: n.Generation, Text: n.Text}
	}
	if h.Kind != k.answer.Kind() {
		return fmt.Errorf("got %v as the answer, want %v", h.Kind, k.answer.Kind())
	}
	if h.Lent && (k.lent == nil || !k.lent.memory.hasOut() || h.Payload > 0) {
		return fmt.Errorf("got %d bytes of payload and the rest where no memory was lent for it", h.Payload)
	}
	if h.Payload > len(k.dst) {
		return fmt.Errorf("got %d bytes of payload, want at most %d", h.Payload, len(k.dst))
	}
	return wire.DecodeHead(k.answer, head)
}
