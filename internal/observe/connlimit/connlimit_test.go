package connlimit

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// pair connects to ln and returns both ends.
func pair(t *testing.T, ln *Listener) (client, server net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// wantClosed wants the other end of a client's connection to be closed, or open.
func wantClosed(t *testing.T, name string, client net.Conn, closed bool) {
	t.Helper()
	wait := 10 * time.Second
	if !closed {
		wait = time.Millisecond
	}
	client.SetReadDeadline(time.Now().Add(wait))
	_, err := client.Read(make([]byte, 1))
	var timeout net.Error
	if open := errors.As(err, &timeout) && timeout.Timeout(); open == closed {
		t.Errorf("%s: reading says %v, want a closed connection: %t", name, err, closed)
	}
}

// One more connection than there may be closes the oldest that has no session; a session's stays.
// With sessions alone it is the newcomer that is closed.
func TestTheOldestStrangerMakesRoom(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := New(inner, 2)
	t.Cleanup(func() { ln.Close() })
	member, server := pair(t, ln)
	MarkSession(WithConn(context.Background(), server))
	old, _ := pair(t, ln)
	young, second := pair(t, ln)
	wantClosed(t, "a session", member, false)
	wantClosed(t, "the oldest stranger", old, true)
	wantClosed(t, "the newest stranger", young, false)
	if n := ln.Held(); n != 2 {
		t.Errorf("%d connections are held, want 2", n)
	}

	MarkSession(WithConn(context.Background(), second))
	late, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	accepted := make(chan error, 1)
	go func() { _, err := ln.Accept(); accepted <- err }()
	wantClosed(t, "a newcomer beside sessions", late, true)
	server.Close()
	server.Close() // twice counts once
	if n := ln.Held(); n != 1 {
		t.Errorf("%d connections are held after one was closed, want 1", n)
	}
	ln.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept ended with %v, want net.ErrClosed", err)
	}
	member.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := member.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the closed session's other end reads %v, want EOF", err)
	}
}
