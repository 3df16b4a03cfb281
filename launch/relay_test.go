package main

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A relay stands between an agent and its launcher, and can cut what passes it.
type relay struct {
	listener net.Listener

	// target is host:port of the launcher; empty: it is not known yet.
	target func() string

	all sync.WaitGroup

	// dialled gets something at each new connection, if there is room.
	dialled chan struct{}

	mu      sync.Mutex // guards the rest
	conns   map[net.Conn]bool
	refuses bool // new connections are closed at once

	// flows is closed while bytes pass.
	flows chan struct{}
}

// newRelay makes a relay on an address of this machine; it ends with the test.
func newRelay(t *testing.T, address string, target func() string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, target: target, dialled: make(chan struct{}, 1), conns: make(map[net.Conn]bool), flows: make(chan struct{})}
	close(r.flows)
	r.all.Go(r.accept)
	t.Cleanup(func() {
		l.Close()
		r.cut(true)
		r.flow()
		r.all.Wait()
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		select {
		case r.dialled <- struct{}{}:
		default:
		}
		r.all.Go(func() { r.carry(c) })
	}
}

// carry copies both ways until one end closes.
func (r *relay) carry(agent net.Conn) {
	defer agent.Close()
	to := r.target()
	if to == "" {
		return
	}
	launcher, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer launcher.Close()
	r.mu.Lock()
	refuses := r.refuses
	r.conns[agent], r.conns[launcher] = true, true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, agent)
		delete(r.conns, launcher)
	}()
	if refuses {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{agent, launcher}, {launcher, agent}} {
		both.Go(func() {
			io.Copy(way[0], flowing{way[1], r})
			way[0].Close()
			way[1].Close()
		})
	}
	both.Wait()
}

// flowing reads from a connection while the relay lets bytes pass.
type flowing struct {
	net.Conn
	r *relay
}

func (f flowing) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	f.r.mu.Lock()
	flows := f.r.flows
	f.r.mu.Unlock()
	<-flows
	return n, err
}

// cut breaks all connections. With refuse no new one comes about until resume.
func (r *relay) cut(refuse bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = refuse
	for c := range r.conns {
		c.Close()
	}
}

// resume lets connections come about again.
func (r *relay) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = false
}

// silence keeps all bytes back, and no connection closes: a cable is out.
func (r *relay) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flows = make(chan struct{})
}

// hush is silence until the agent makes another connection because of it.
func (r *relay) hush(t *testing.T) {
	t.Helper()
	select {
	case <-r.dialled: // before
	default:
	}
	r.silence()
	defer r.flow()
	select {
	case <-r.dialled:
	case <-time.After(patience):
		t.Errorf("the agent has not dialled again after %s of silence", patience)
	}
}

// flow ends silence.
func (r *relay) flow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.flows:
	default:
		close(r.flows)
	}
}
