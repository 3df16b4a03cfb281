package page

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A browser's way in: the token once, then the cookie.
func TestTokenOpensOneSession(t *testing.T) {
	s := serve(t, &counter{})
	link := strings.TrimPrefix(s.cfg.Key.Link(s.URL()), "http://"+s.ln.Addr().String())
	r, _ := ask(t, s, "HEAD "+link+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("HEAD of the link: %s, want 400", r.Status)
	}
	for _, ahead := range []string{"Sec-Purpose: prefetch", "Sec-Fetch-Site: cross-site", "Origin: http://evil.example"} {
		if r, _ := get(t, s, link, ahead); r.StatusCode < 400 {
			t.Errorf("with %q: %s, want a refusal", ahead, r.Status)
		}
	}
	r, _ = get(t, s, link, "Sec-Fetch-Site: none")
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/" || len(r.Cookies()) != 1 {
		t.Fatalf("the link: %s to %q with cookies %v, want 303 to / with one", r.Status, r.Header.Get("Location"), r.Cookies())
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Secure || !c.Expires.IsZero() {
		t.Errorf("cookie %s: want HttpOnly, SameSite=Strict, path /, and none of domain, Secure and a time", c)
	}
	if _, port, _ := net.SplitHostPort(s.ln.Addr().String()); c.Name != "paragon-"+port {
		t.Errorf("the cookie's name is %s, want paragon-%s: a browser sends the cookies of all ports", c.Name, port)
	}
	if r, b := get(t, s, "/", "Cookie: "+c.Name+"="+c.Value); r.StatusCode != http.StatusOK || b != string(testAssets["index.html"].Data) {
		t.Errorf("with the cookie: %s, %q, want index.html", r.Status, b)
	}
	if r, _ := get(t, s, link); r.StatusCode != http.StatusUnauthorized || len(r.Cookies()) != 0 {
		t.Errorf("the link once more: %s with cookies %v, want 401", r.Status, r.Cookies())
	}
	if r, _ := get(t, s, link, "Cookie: "+c.Name+"="+c.Value); r.StatusCode != http.StatusSeeOther {
		t.Errorf("the link once more with the cookie: %s, want 303", r.Status)
	}
	if r, _ := get(t, s, strings.TrimPrefix(s.cfg.Key.Link(s.URL()), strings.TrimSuffix(s.URL(), "/"))); r.StatusCode != http.StatusSeeOther {
		t.Errorf("another link: %s, want 303", r.Status)
	}
}

func TestWrongTokensOpenNothing(t *testing.T) {
	s := serve(t, &counter{})
	good := s.cfg.Key.Token()
	wrong := []string{"", "x", good[:len(good)-1], good + "A", NewKey().Token(), strings.Repeat("A", len(good)), strings.Repeat("A", 3000), good + "=", " " + good}
	for i := range good { // each character counts
		c := byte('A')
		if good[i] == c {
			c = 'B'
		}
		wrong = append(wrong, good[:i]+string(c)+good[i+1:])
	}
	for _, token := range wrong {
		if secret, ok := s.guard.open(token); ok || secret != "" {
			t.Errorf("token %q opened a session", token)
		}
	}
	for _, query := range []string{"token=" + url.QueryEscape(wrong[4]), "token=" + good + "&token=" + good, "token=" + good + "&next=//evil.example", "token"} {
		if r, _ := get(t, s, "/?"+query); r.StatusCode < 400 || len(r.Cookies()) != 0 {
			t.Errorf("/?%s: %s with cookies %v, want a refusal", query, r.Status, r.Cookies())
		}
	}
	if _, ok := s.guard.open(good); !ok {
		t.Error("the right token was used up by wrong requests")
	}
	if _, ok := newGuard(nil).open(Key(nil).Token()); ok {
		t.Error("a guard without a key opened a session")
	}
}

func TestSessionsAndTokensAreBounded(t *testing.T) {
	g := newGuard(NewKey())
	first, _ := g.open(g.key.Token())
	second, _ := g.open(g.key.Token())
	for range maxSessions - 1 {
		if !g.has(first) { // it is in use
			t.Fatal("a session in use made way")
		}
		if _, ok := g.open(g.key.Token()); !ok {
			t.Fatal("a new token is refused")
		}
	}
	if !g.has(first) || g.has(second) || len(g.sessions) != maxSessions {
		t.Errorf("session in use %t, idle one %t, %d in all; want true, false and %d", g.has(first), g.has(second), len(g.sessions), maxSessions)
	}
	for range maxUsed {
		g.open(g.key.Token())
	}
	if _, ok := g.open(g.key.Token()); ok || len(g.used) != maxUsed {
		t.Errorf("%d tokens are remembered and one more was taken: %t", len(g.used), ok)
	}
	for _, secret := range []string{"", "x", first + "x", strings.Repeat("x", 1<<16)} {
		if g.has(secret) {
			t.Errorf("%.20q is a session", secret)
		}
	}
}

// Without a session nothing is answered, and no connection is kept.
func TestStrangersSeeNothing(t *testing.T) {
	feed := &counter{}
	s := serve(t, feed)
	for _, path := range []string{"/", "/assets/page.js", "/api/page", "/api/state", "/api/events", "/api/more", "/nothing"} {
		for _, cookie := range []string{"X: y", "Cookie: " + s.cookie + "=x", "Cookie: " + s.cookie + "=", "Cookie: " + session(t, s) + "x", "Cookie: " + session(t, s) + "; " + session(t, s)} {
			r, b := ask(t, s, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n"+cookie+"\r\n\r\n")
			if r.StatusCode != http.StatusUnauthorized || !r.Close || strings.Contains(b, "page</title>") {
				t.Errorf("%s with %q: %s, closed is %t, %q; want 401 and the end of the connection", path, cookie, r.Status, r.Close, b)
			}
		}
	}
	if n := feed.polls.Load(); n != 0 {
		t.Errorf("strangers made the scheduler be asked %d times", n)
	}
}

func TestForeignRequestsAreRefused(t *testing.T) {
	s := serve(t, &counter{})
	own, cookie := s.ln.Addr().String(), "Cookie: "+session(t, s)
	_, port, _ := net.SplitHostPort(own)
	for _, c := range []struct {
		request, host, header string
		want                  int
	}{
		{"GET / HTTP/1.1", own, "X: y", 200},
		{"HEAD / HTTP/1.1", own, "X: y", 200},
		{"GET / HTTP/1.1", "localhost:" + port, "X: y", 200},
		{"GET / HTTP/1.1", "LOCALHOST:8080", "X: y", 200}, // a tunnel's other end
		{"GET / HTTP/1.1", "[::1]:" + port, "X: y", 200},
		{"GET / HTTP/1.1", own, "Origin: http://" + own, 200},
		{"GET / HTTP/1.1", own, "Sec-Fetch-Site: same-origin", 200},
		{"GET / HTTP/1.1", own, "Sec-Fetch-Site: none", 200},

		{"GET / HTTP/1.1", "evil.example:" + port, "X: y", 421},
		{"GET / HTTP/1.1", "localhost.evil.example", "X: y", 421},
		{"GET / HTTP/1.1", "127.0.0.1.evil.example:" + port, "X: y", 421},
		{"GET / HTTP/1.1", "192.0.2.1:" + port, "X: y", 421},
		{"GET / HTTP/1.1", "localhost@evil.example", "X: y", 400},
		{"GET / HTTP/1.1", "", "X: y", 421},
		{"GET http://evil.example/ HTTP/1.1", own, "X: y", 421},
		{"GET / HTTP/1.1", own, "Origin: http://evil.example", 403},
		{"GET / HTTP/1.1", own, "Origin: https://" + own, 403},
		{"GET / HTTP/1.1", own, "Origin: http://localhost:1", 403},
		{"GET / HTTP/1.1", own, "Origin: null", 403},
		{"GET / HTTP/1.1", own, "Origin: http://" + own + "\r\nOrigin: http://evil.example", 403},
		{"GET / HTTP/1.1", own, "Sec-Fetch-Site: cross-site", 403},
		{"GET / HTTP/1.1", own, "Sec-Fetch-Site: same-site", 403},
		{"POST / HTTP/1.1", own, "Content-Length: 0", 405},
		{"PUT /api/state HTTP/1.1", own, "X: y", 405},
		{"DELETE / HTTP/1.1", own, "X: y", 405},
		{"OPTIONS / HTTP/1.1", own, "Origin: http://evil.example", 405},
		{"TRACE / HTTP/1.1", own, "X: y", 405},
		{"CONNECT evil.example:443 HTTP/1.1", own, "X: y", 405},
		{"GET / HTTP/1.1", own, "Content-Length: 3\r\n\r\nabc", 400},
		{"GET / HTTP/1.1", own, "Transfer-Encoding: chunked\r\n\r\n0", 400},
		{"GET /?" + strings.Repeat("a", 8<<10) + " HTTP/1.1", own, "X: y", 400},
		{"GET /assets/../server.go HTTP/1.1", own, "X: y", 307},
		{"GET /assets/..%2f..%2fetc/passwd HTTP/1.1", own, "X: y", 404},
		{"GET /assets/%2e%2e/%2e%2e/etc/passwd HTTP/1.1", own, "X: y", 404},
		{"GET /assets/..\\..\\etc\\passwd HTTP/1.1", own, "X: y", 404},
		{"GET //evil.example/ HTTP/1.1", own, "X: y", 307},
		{"GET /assets/ HTTP/1.1", own, "X: y", 404},
		{"GET /assets/sub HTTP/1.1", own, "X: y", 404},
		{"GET /assets/sub/ HTTP/1.1", own, "X: y", 404},
		{"GET /index.html HTTP/1.1", own, "X: y", 404},
		{"GET /debug/pprof/ HTTP/1.1", own, "X: y", 404},
	} {
		r, b := ask(t, s, fmt.Sprintf("%s\r\nHost: %s\r\n%s\r\nConnection: close\r\n%s\r\n\r\n", c.request, c.host, cookie, c.header))
		if r.StatusCode != c.want {
			t.Errorf("%.60s, host %s, %.60q: %s %.80q, want %d", c.request, c.host, c.header, r.Status, b, c.want)
		}
		if l := r.Header.Get("Location"); l != "" && (!strings.HasPrefix(l, "/") || strings.HasPrefix(l, "//")) {
			t.Errorf("%s is sent on to %q", c.request, l)
		}
		if strings.Contains(b, "malformed Host") {
			continue // Go answers that
		}
		for name, value := range headers {
			if got := r.Header.Get(name); got != value && !(name == "Cache-Control" && c.want == 404) {
				t.Errorf("%.60s: %s is %q, want %q", c.request, name, got, value)
			}
		}
	}
}

func TestContentTypes(t *testing.T) {
	s := serve(t, &counter{})
	cookie := "Cookie: " + session(t, s)
	for path, want := range map[string]string{"/": "text/html; charset=utf-8", "/assets/page.js": "text/javascript; charset=utf-8", "/api/page": "application/json", "/api/state": "application/json"} {
		if r, _ := get(t, s, path, cookie); r.Header.Get("Content-Type") != want || r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s of type %q, want %q", path, r.Status, r.Header.Get("Content-Type"), want)
		}
	}
	if r, _ := ask(t, s, "HEAD /api/events HTTP/1.1\r\nHost: localhost\r\n"+cookie+"\r\nConnection: close\r\n\r\n"); r.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD of the stream: %s, %v", r.Status, r.Header)
	}
	if _, b := get(t, s, "/api/more", cookie); b != "more" {
		t.Errorf("the feed's own path: %q, want more", b)
	}
}

// The server of package http would answer OPTIONS * by itself, without the page's headers, and keep
// the connection.
func TestGeneralOptionsAreRefused(t *testing.T) {
	s := serve(t, &counter{})
	r, _ := ask(t, s, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if r.StatusCode != http.StatusMethodNotAllowed || !r.Close || r.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("OPTIONS *: %s, closed %v, %v; want 405, closed, with the page's headers", r.Status, r.Close, r.Header)
	}
}
