package hostsource

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve answers each request with the next function, and the last one for ever.
func serve(t *testing.T, answers ...http.HandlerFunc) *URL {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[min(n, len(answers)-1)]
		n++
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	u, err := NewURL(s.URL + "/hosts?tag=train")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

func TestURLIsReadWithItsETag(t *testing.T) {
	same := func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("If-None-Match"); got != `"1"` {
			t.Errorf("If-None-Match is %q, want the last answer's", got)
		}
		w.WriteHeader(http.StatusNotModified)
	}
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "tag=train" || r.Header.Get("If-None-Match") != "" || r.Method != http.MethodGet {
			t.Errorf("got %s %s", r.Method, r.URL)
		}
		w.Header().Set("ETag", `"1"`)
		fmt.Fprintln(w, `[{"host":"d1","slots":2}]`)
	}, same, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"bad"`)
		fmt.Fprint(w, `[{"host":`)
	}, same, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "{\"host\":\"d1\"}\n{\"host\":\"d2\"}")
	}, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("If-None-Match"); got != "" {
			t.Errorf("If-None-Match is %q, and the last answer had none", got)
		}
		w.WriteHeader(http.StatusNotModified)
	})
	for i, want := range []string{"d1 slots=2 0", "d1 slots=2 0", "error", "d1 slots=2 0", "d1 0, d2 0", "error"} {
		got, err := u.Ask(t.Context())
		text := texts(got)
		if err != nil {
			text = "error"
		}
		if text != want {
			t.Errorf("answer %d: %s, %v, want %s", i, text, err, want)
		}
	}
}

func TestURLThatFailsGivesNoAnswer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"not found", http.NotFound, "got status 404 Not Found, want 200 OK"},
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "got status 204 No Content"},
		{"a body that is cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprintln(w, `{"host":"d1"}`)
		}, "the answer is incomplete: unexpected EOF"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, `line 1: "<html>" is not JSON`},
		{"redirected for ever", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
		}, "stopped after 10 redirects"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := serve(t, tc.answer)
			got, err := u.Ask(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || got != nil {
				t.Errorf("Ask: %s, %v, want an error with %q", texts(got), err, tc.want)
			}
		})
	}
	sent := make(chan bool, 1)
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		line, err := []byte(strings.Repeat(" ", 1<<16)), error(nil)
		for n := 0; n < 1<<10 && err == nil; n++ {
			_, err = w.Write(line)
		}
		sent <- err == nil
	})
	if got, err := u.Ask(t.Context()); err == nil || !strings.Contains(err.Error(), "got more than 1048576 bytes") || <-sent {
		t.Errorf("a list without an end: %s, %v, want that it is not read to its end", texts(got), err)
	}
	u = serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	u.client.Timeout = 50 * time.Millisecond
	if got, err := u.Ask(context.Background()); err == nil || !strings.Contains(err.Error(), "Timeout") {
		t.Errorf("a server that is silent: %s, %v", texts(got), err)
	}
}

func TestPasswordOfAURLIsNotShown(t *testing.T) {
	u, err := NewURL("http://me:hunter2@127.0.0.1:1/hosts")
	if err != nil {
		t.Fatal(err)
	}
	_, err = u.Ask(t.Context())
	if err == nil || strings.Contains(err.Error()+u.String(), "hunter2") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%s: %v", u, err)
	}
	for _, bad := range []string{"", "hosts", "d1:80/hosts", "ftp://me:hunter2@d1/hosts", "http://me:hunter2@d1:x/hosts", "http:///hosts", "file:///etc/hosts"} {
		if _, err := NewURL(bad); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "write http://") {
			t.Errorf("NewURL(%q): %v", bad, err)
		}
	}
}
