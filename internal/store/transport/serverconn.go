package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/freelist"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A serverConn is one connection of a Server. One goroutine reads requests and answers those that
// need not wait; other requests have a goroutine each; one goroutine writes small answers.
type serverConn struct {
	s  *Server
	nc net.Conn
	// role is the client's, from its certificate; empty without TLS.
	role string
	w    *frameWriter
	// ctx ends when the connection does.
	ctx    context.Context
	cancel context.CancelFunc
	// turns holds a token for each request being worked on.
	turns    chan struct{}
	requests *requestPool
	spare    freelist.List[Request]
	// unflushed and description belong to the reading goroutine. unflushed says that it has
	// collected answers that must be written before it waits.
	unflushed   bool
	description [loanSize]byte
	// wg waits for the writer.
	wg sync.WaitGroup
}

func newServerConn(s *Server, nc net.Conn, role string) *serverConn {
	c := &serverConn{s: s, nc: nc, role: role, turns: make(chan struct{}, s.cfg.MaxInFlight)}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.w = newFrameWriter(nc, c.ctx.Done(), true, trafficOf(nc, s.cfg.Recorder))
	c.requests = newRequestPool(c.serveOne, c.ctx.Done())
	return c
}

// serve returns when the connection and all its goroutines have ended.
func (c *serverConn) serve() {
	c.wg.Go(func() { c.w.run(c.fail) })
	err := c.read()
	c.fail(err)
	c.requests.wg.Wait()
	c.wg.Wait()
}

// fail closes the connection and ends the contexts of its requests.
func (c *serverConn) fail(err error) {
	if err != nil && c.ctx.Err() == nil && !errors.Is(err, io.EOF) {
		c.s.cfg.Logger.Debug("transport: connection ended", "from", c.nc.RemoteAddr().String(), "err", err)
	}
	c.cancel()
	c.nc.Close()
}

// read reads requests until the connection breaks.
func (c *serverConn) read() error {
	br := newFrameReader(c.nc, c.w.count)
	var header [wire.HeaderSize]byte
	for {
		if br.buffered() < len(header) {
			if err := c.flushAnswers(); err != nil {
				return err
			}
		}
		if err := br.full(header[:]); err != nil {
			return err
		}
		h, err := wire.ParseHeader(header[:])
		if err != nil {
			return err
		}
		// A frame that has begun must end within frameTime, or a silent peer would hold the
		// memory for ever.
		slow := br.buffered() < h.Head+h.Payload
		if slow {
			if err := c.flushAnswers(); err != nil {
				return err
			}
			c.nc.SetReadDeadline(time.Now().Add(frameTime(h.Payload)))
		}
		if err := c.request(br, h); err != nil {
			return err
		}
		if slow {
			c.nc.SetReadDeadline(time.Time{})
		}
	}
}

// flushAnswers writes the answers that the reading goroutine has collected: those of requests that
// came together go in one write.
func (c *serverConn) flushAnswers() error {
	if !c.unflushed {
		return nil
	}
	c.unflushed = false
	return c.w.flushBatch()
}

// request reads the rest of one request and serves it, or starts to. Its error is the connection's.
func (c *serverConn) request(br *frameReader, h wire.Header) error {
	r := c.spare.Take()
	if r == nil {
		r = new(Request)
	}
	r.Kind, r.Remote, r.Peer = h.Kind, c.nc.RemoteAddr(), c.role
	if cap(r.Head) < h.Head {
		r.Head = make([]byte, h.Head)
	}
	r.Head = r.Head[:h.Head]
	if err := br.full(r.Head); err != nil {
		c.recycle(r)
		return err
	}
	var refused error
	if h.Lent {
		var over bool
		var err error
		if refused, over, err = c.readLoan(br, h, r); over || err != nil {
			c.recycle(r)
			return err
		}
	} else if h.Payload > 0 {
		r.Payload, refused = c.buffer(r, h.Payload)
		if refused != nil {
			if err := br.discard(h.Payload); err != nil {
				c.recycle(r)
				return err
			}
		} else if err := br.full(r.Payload); err != nil {
			c.drop(r)
			c.recycle(r)
			return err
		}
	}
	if refused == nil && c.s.p != nil && promptly(h) && c.prompt(h, r) {
		return nil
	}
	select {
	case c.turns <- struct{}{}:
	default:
		if err := c.flushAnswers(); err != nil {
			return c.reject(r, refused, err)
		}
		select {
		case c.turns <- struct{}{}:
		case <-c.ctx.Done():
			return c.reject(r, refused, c.ctx.Err())
		}
	}
	c.requests.do(job{h, r, refused})
	return nil
}

// readLoan reads the description of a payload that was lent, and copies the payload unless the
// Handler uses the loan. over: the owner has taken its memory back, and expects no answer.
func (c *serverConn) readLoan(br *frameReader, h wire.Header, r *Request) (refused error, over bool, err error) {
	from, ok := c.nc.(borrower)
	if !ok || h.Payload != loanSize {
		return nil, false, fmt.Errorf("a %v with a loan of %d bytes, on a connection of kind %T", h.Kind, h.Payload, c.nc)
	}
	if err := br.full(c.description[:]); err != nil {
		return nil, false, err
	}
	if err := from.borrow(c.description[:], &r.loan); err != nil {
		return nil, false, err
	}
	br.count.received(len(r.loan.payload))
	if r.Payload, refused = c.borrow(r, &r.loan); refused != nil || r.Payload == nil {
		return refused, false, nil
	}
	if !r.loan.Claim() {
		c.drop(r)
		return nil, true, nil
	}
	copy(r.Payload, r.loan.payload)
	r.loan.Release()
	return nil, false, nil
}

// promptly reports whether the reading goroutine tries to answer the request: small ones, and the
// small pushes of one message, which take it no longer than it took to read them.
func promptly(h wire.Header) bool {
	return !h.Lent && (h.Head+h.Payload <= smallFrame || h.Kind == wire.KindPushMany)
}

// reject drops a request that was read and will not be served, because of err.
func (c *serverConn) reject(r *Request, refused, err error) error {
	if refused == nil && (len(r.Payload) > 0 || r.Value != nil) {
		c.drop(r)
	}
	c.recycle(r)
	return err
}

// prompt answers a request on this goroutine, if the Handler can without waiting.
func (c *serverConn) prompt(h wire.Header, r *Request) bool {
	resp, done, err := c.tryHandle(r)
	switch {
	case err != nil:
		resp = Response{Message: nack(err)}
	case !done:
		return false
	}
	if taken, _ := c.w.collectSmall(h.ID, resp.Message, payloadSize(resp.Payload), resp.Payload); !taken {
		c.answer(h.ID, resp)
	} else {
		c.unflushed = true
		if resp.Release != nil {
			resp.Release()
		}
	}
	c.recycle(r)
	return true
}

// serveOne answers a request that was read.
func (c *serverConn) serveOne(j job) {
	resp, err := Response{}, j.refused
	if err == nil {
		resp, err = c.handle(j.r)
	}
	if err != nil {
		resp.Message, resp.Payload = nack(err), nil
	} else if resp.Placed {
		c.w.count.sent(len(j.r.loan.out))
		j.r.placed.Message = resp.Message
		resp.Message, resp.Payload = &j.r.placed, nil
	}
	c.answer(j.h.ID, resp)
	c.recycle(j.r)
	<-c.turns
}

// recycle keeps a request for reuse, without what it was made of.
func (c *serverConn) recycle(r *Request) {
	if r.loan.conn != nil {
		// A handler that panicked has not released it.
		r.loan.Release()
		r.loan.conn.endLoan()
	}
	head := r.Head[:0]
	if cap(head) > keepScratch {
		head = nil
	}
	*r = Request{Head: head}
	c.spare.Keep(r)
}

// answer writes the response, or drops it if the connection has ended.
func (c *serverConn) answer(id uint32, resp Response) {
	if resp.Release != nil {
		defer resp.Release()
	}
	err := c.write(id, resp)
	// Our own answer is beyond the limits.
	if errors.Is(err, wire.ErrMalformed) {
		err = c.write(id, Response{Message: nack(fmt.Errorf("the answer: %v", err))}) //nolint:errorlint // %w would make it the code of a malformed request
	}
	if err != nil {
		c.fail(err)
	}
}

func (c *serverConn) write(id uint32, resp Response) error {
	size := payloadSize(resp.Payload)
	taken, err := c.w.writeSmall(id, resp.Message, size, resp.Payload)
	if taken || err != nil {
		return err
	}
	_, err = c.w.writeLarge(noCancel, id, resp.Message, resp.Order, size, resp.Payload)
	return err
}

// handle, buffer and drop call the Handler. A panic becomes an answer and does not end the process.

// handle asks the Handler for the answer, and catches a panic.
func (c *serverConn) handle(r *Request) (resp Response, err error) {
	defer c.caught(r, &err)
	resp, err = c.s.h.Serve(c.ctx, r)
	if err == nil && resp.Message == nil {
		err = errors.New("the handler returned no answer")
	}
	return resp, err
}

// tryHandle is handle for a PromptHandler, on the goroutine that reads the connection.
func (c *serverConn) tryHandle(r *Request) (resp Response, done bool, err error) {
	defer c.caught(r, &err)
	resp, done, err = c.s.p.Prompt(r)
	if err == nil && done && resp.Message == nil {
		err = errors.New("the handler returned no answer")
	}
	return resp, done, err
}

// buffer asks the Handler for the memory of a payload, and catches a panic.
func (c *serverConn) buffer(r *Request, n int) (b []byte, err error) {
	defer c.caught(r, &err)
	b, err = c.s.h.Buffer(r, n)
	if err == nil && len(b) != n {
		err = fmt.Errorf("a buffer of %d bytes for a payload of %d", len(b), n)
	}
	return b, err
}

// drop tells the Handler of a payload that did not arrive whole. A panic ends the request and
// not the process.
func (c *serverConn) drop(r *Request) {
	var err error
	defer c.caught(r, &err)
	c.s.h.Drop(r)
}

// caught turns a panic of a Handler into a refusal: no request of a peer may end the process.
func (c *serverConn) caught(r *Request, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic while serving a %v: %v", r.Kind, p)
		c.s.cfg.Logger.Error("transport: handler panicked", "kind", r.Kind.String(), "panic", p, "stack", string(debug.Stack()),
			joblog.HandlerPanicked.With())
	}
}

// borrow asks the Handler about the memory for a payload that was lent.
func (c *serverConn) borrow(r *Request, l *Loan) (b []byte, err error) {
	h, ok := c.s.h.(LoanHandler)
	if !ok {
		return c.buffer(r, len(l.payload))
	}
	defer c.caught(r, &err)
	b, err = h.Borrow(r, l)
	if err == nil && b != nil && len(b) != len(l.payload) {
		err = errors.New("memory of another length than the payload")
	}
	return b, err
}
