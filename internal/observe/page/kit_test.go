package page

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"
)

// A counter is a feed whose state is a number.
type counter struct {
	polls atomic.Int64
	text  string // in each message
}

func (c *counter) Page() Page { return Page{Kind: KindJob} }

func (c *counter) Poll(context.Context) Message {
	return Message{Event: EventUpdate, Data: fmt.Appendf(nil, `{"now_ms":%d,"text":%q}`, c.polls.Add(1), c.text)}
}

func (c *counter) Whole() []Message {
	return []Message{{Event: EventState, Data: fmt.Appendf(nil, `{"now_ms":%d}`, c.polls.Load()), Whole: true}}
}

func (c *counter) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{"/api/more": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "more") }}
}

var testAssets = fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>page</title>")}, "page.js": {Data: []byte("'use strict'")}, "sub/secret.txt": {Data: []byte("x")}}

// serve starts a server on loopback.
func serve(t *testing.T, feed Feed) *Server {
	t.Helper()
	return serveWith(t, Config{Listen: "127.0.0.1:0", Feed: feed})
}

func serveWith(t *testing.T, cfg Config) *Server {
	t.Helper()
	cfg.Key, cfg.Assets, cfg.Logger = NewKey(), testAssets, slog.New(slog.DiscardHandler)
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// session is a cookie of a new session, as a Cookie header has it.
func session(t *testing.T, s *Server) string {
	t.Helper()
	secret, ok := s.guard.open(s.cfg.Key.Token())
	if !ok {
		t.Fatal("a new token is refused")
	}
	return s.cookie + "=" + secret
}

// ask sends a request as it stands, on a connection of its own, and reads the answer.
func ask(t *testing.T, s *Server, request string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("request %.80q: %v", request, err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("request %.80q: %v", request, err)
	}
	return r, string(b)
}

// get is a GET with further header lines.
func get(t *testing.T, s *Server, path string, header ...string) (*http.Response, string) {
	t.Helper()
	return ask(t, s, "GET "+path+" HTTP/1.1\r\nHost: "+s.ln.Addr().String()+"\r\n"+strings.Join(append(header, "Connection: close"), "\r\n")+"\r\n\r\n")
}
