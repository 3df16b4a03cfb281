package page

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/observe/connlimit"
)

// descriptors counts this process's.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("descriptors cannot be counted here: %v", err)
	}
	return len(list)
}

// A thousand connections that say nothing, or little, take a bounded number of descriptors and keep
// neither a session's stream nor a newcomer out.
func TestManyConnectionsKeepNobodyOut(t *testing.T) {
	s := serve(t, &counter{})
	cookie := "Cookie: " + session(t, s)
	stream, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	stream.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(stream, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", cookie)
	events := bufio.NewReader(stream)
	next := func() {
		t.Helper()
		for {
			line, err := events.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream of a session ended: %v", err)
			}
			if strings.HasPrefix(line, "event: ") {
				return
			}
		}
	}
	next()

	before, most := descriptors(t), 0
	held := make([]net.Conn, 0, 1000)
	for i := range 1000 {
		c, err := net.Dial("tcp", s.ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
		if i%2 == 0 {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: loc")
		}
		if i%100 == 99 {
			// One descriptor of each connection is this test's.
			most = max(most, descriptors(t)-before-len(held))
			if r, _ := get(t, s, "/", cookie); r.StatusCode != http.StatusOK {
				t.Errorf("a browser beside %d connections: %s", len(held), r.Status)
			}
		}
		if i%500 == 499 {
			next()
		}
	}
	if most > maxConns+16 {
		t.Errorf("1,000 connections took %d descriptors, want at most %d", most, maxConns)
	}
	if n := s.ln.(*connlimit.Listener).Held(); n > maxConns {
		t.Errorf("%d connections are held, want at most %d", n, maxConns)
	}
}

// What a stranger holds open or sends without end is ended.
func TestSlowAndEndlessRequestsAreEnded(t *testing.T) {
	s := serve(t, &counter{})
	c, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	sent := 0
	go io.Copy(io.Discard, c)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
	for err == nil && sent < 64<<20 {
		var n int
		n, err = io.WriteString(c, strings.Repeat("a", 32<<10))
		sent += n
	}
	if err == nil {
		t.Errorf("a header of %d bytes was taken", sent)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a header without end held its connection: %v", err)
	}
	if d := s.http.ReadHeaderTimeout; d <= 0 || d > 10*time.Second || s.http.ReadTimeout <= 0 || s.http.WriteTimeout <= 0 || s.http.IdleTimeout <= 0 {
		t.Errorf("deadlines: head %s, read %s, write %s, idle %s; want all", d, s.http.ReadTimeout, s.http.WriteTimeout, s.http.IdleTimeout)
	}
}

// A reader that reads nothing is dropped, and others get each message meanwhile.
func TestSlowReaderIsDroppedAndHoldsNobody(t *testing.T) {
	feed := &counter{text: strings.Repeat("x", 1<<20)}
	h := newHub(feed)
	defer h.close()
	slow, quick := h.watch(), h.watch()
	deadline := time.After(30 * time.Second)
	for range queued + 3 {
		select {
		case _, ok := <-quick.messages:
			if !ok {
				t.Fatal("the reader that reads was dropped")
			}

			// The test polls beside the ticker, so that it need not wait for a second.
			h.poll()
		case <-deadline:
			t.Fatal("the reader that reads got nothing")
		}
	}
	n := 0

	// The loop ends when the channel is closed.
	for range slow.messages {
		n++
	}
	if n > queued {
		t.Errorf("%d messages were held for a reader that reads nothing, want at most %d", n, queued)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	s := serve(t, &counter{})
	cookie := "Cookie: " + session(t, s)
	for range maxStreams {
		c, err := net.Dial("tcp", s.ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(c, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", cookie)
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("a stream: %v, %v", r, err)
		}
	}
	if r, _ := get(t, s, "/api/events", cookie); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one stream more: %s, want 503", r.Status)
	}
	if r, _ := get(t, s, "/", cookie); r.StatusCode != http.StatusOK {
		t.Errorf("the page beside all streams: %s, want 200", r.Status)
	}
}
