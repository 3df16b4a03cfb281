// Package connlimit bounds what strangers can take of an HTTP server: connections, and with them
// descriptors, goroutines and memory.
package connlimit

import (
	"container/list"
	"context"
	"net"
	"sync"
)

// writeBuffer is what the system may hold for a client that does not read, in bytes.
const writeBuffer = 256 << 10

// A Listener is a listener with at most so many connections. When there is one more, the oldest
// without a session is closed: strangers who hold connections open keep nobody out.
type Listener struct {
	net.Listener
	most int

	// mu guards the rest, and the elements of connections.
	mu sync.Mutex

	// strangers has each *gated without a session, the oldest first.
	strangers *list.List

	// members counts the connections that have sessions.
	members int
}

// New limits the connections of ln to most at once.
func New(ln net.Listener, most int) *Listener {
	return &Listener{Listener: ln, most: most, strangers: list.New()}
}

// Held is the number of connections that are open.
func (g *Listener) Held() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.strangers.Len() + g.members
}

// Accept implements net.Listener.
func (g *Listener) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetWriteBuffer(writeBuffer) // a hint
		}
		var last net.Conn
		g.mu.Lock()
		if g.strangers.Len()+g.members >= g.most {
			if e := g.strangers.Front(); e != nil {
				last = e.Value.(*gated)
			} else {
				// All connections have sessions, so the new one has to go.
				last, c = c, nil
			}
		}
		var x *gated
		if c != nil {
			x = &gated{Conn: c, of: g}
			x.stranger = g.strangers.PushBack(x)
		}
		g.mu.Unlock()
		if last != nil {
			last.Close()
		}
		if x != nil {
			return x, nil
		}
	}
}

// A gated is a connection of a Listener.
type gated struct {
	net.Conn
	of *Listener

	// stranger is the connection's place among strangers; nil: it has a session, or is closed.
	stranger *list.Element

	member bool
}

// Close implements net.Conn.
func (c *gated) Close() error {
	c.of.mu.Lock()
	if c.stranger != nil {
		c.of.strangers.Remove(c.stranger)
		c.stranger = nil
	}
	if c.member {
		c.of.members--
		c.member = false
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

type connKey struct{}

// WithConn gives requests their connection: it is the ConnContext of an http.Server. c may be one
// of TLS over a gated one.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// MarkSession says that the connection of a request is one of a session. It does nothing where ctx
// has no connection of WithConn.
func MarkSession(ctx context.Context) {
	c, ok := ctx.Value(connKey{}).(*gated)
	if !ok {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.stranger != nil {
		c.of.strangers.Remove(c.stranger)
		c.stranger, c.member = nil, true
		c.of.members++
	}
}
