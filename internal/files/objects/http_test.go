package objects_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// A site is a web server of files in memory, with faults.
type site struct {
	*httptest.Server

	mu    sync.Mutex // guards the rest
	files map[string][]byte
	etags bool

	// changes give files later times.
	changes map[string]int

	// heedless leaves out the conditions of requests.
	heedless bool
	ranges   bool // it knows them

	// fault gets request n from 1. It returns true if it has answered.
	fault func(n int, w http.ResponseWriter, r *http.Request) bool

	seen []*http.Request
}

func newSite(t *testing.T, files map[string][]byte) *site {
	s := &site{files: files, etags: true, ranges: true, changes: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r)
	n, fault := len(s.seen), s.fault
	name := strings.TrimPrefix(r.URL.Path, "/data/")
	data, ok := s.files[name]
	if s.etags {
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(data)))
	}
	modTime := time.Unix(1_000_000_000, 0).Add(time.Duration(s.changes[name]) * time.Hour)
	if !s.ranges {
		r.Header.Del("Range")
	}
	if s.heedless {
		r.Header.Del("If-Match")
		r.Header.Del("If-Unmodified-Since")
	}
	s.mu.Unlock()
	switch {
	case fault != nil && fault(n, w, r):
	case !ok:
		http.NotFound(w, r)
	default:
		http.ServeContent(w, r, "x.bin", modTime, bytes.NewReader(data))
	}
}

func (s *site) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// store opens the site as users do, but with waits that tests can afford.
func (s *site) store(t *testing.T) objects.Store {
	t.Helper()
	u, err := url.Parse(s.URL + "/data/")
	if err != nil {
		t.Fatal(err)
	}
	store := objects.NewHTTP(u, objects.HTTPConfig{Retry: quick})
	t.Cleanup(func() { store.Close() })
	return store
}

// quick finds a stalled body soon. patient is for servers that never stall: the handshake of TLS takes
// more than 50 ms on a busy machine.
var quick = objects.RetryConfig{Attempts: 4, First: time.Millisecond, Most: 2 * time.Millisecond,
	Stall: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
var patient = objects.RetryConfig{Attempts: quick.Attempts, First: quick.First, Most: quick.Most, Logger: quick.Logger}

func TestAWebServerIsAStore(t *testing.T) {
	for _, kind := range []string{"ETags", "times", "ETags, heedless", "times, heedless", "small files without ranges"} {
		t.Run(kind, func(t *testing.T) {
			var s *site
			objectstest.TestStore(t, objectstest.Suite{
				NoList: true,
				Make: func(t *testing.T, contents map[string][]byte) objects.Store {
					s = newSite(t, contents)
					s.etags, s.ranges = !strings.HasPrefix(kind, "times"), kind != "small files without ranges"
					s.heedless = strings.HasSuffix(kind, "heedless")
					return s.store(t)
				},
				Replace: func(_ *testing.T, name string, data []byte) {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.files[name] = data
					s.changes[name]++
				},
				Remove: func(_ *testing.T, name string) {
					s.mu.Lock()
					defer s.mu.Unlock()
					delete(s.files, name)
				},
			})
		})
	}
}

// What breaks is tried again, and goes on at the byte that was reached.
func TestAReadThatBreaksGoesOnWhereItWas(t *testing.T) {
	data := random(1 << 20)
	s := newSite(t, map[string][]byte{"a": data})
	store := s.store(t)
	object := info(t, store, "a")
	begin := len(s.requests())
	s.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
		switch n - begin {
		case 1: // The body ends early.
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 100-%d/%d", len(data)-1, len(data)))
			w.Header().Set("Content-Length", fmt.Sprint(len(data)-100))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(data[100:300_100])
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		case 3: // The body stalls.
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 300100-%d/%d", len(data)-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(data[300_100:400_000])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}
		return false
	}
	p := make([]byte, len(data)-100)
	if err := store.ReadRange(t.Context(), object, p, 100); err != nil || !bytes.Equal(p, data[100:]) {
		t.Errorf("got error %v, or other bytes", err)
	}
	var got []string
	for _, r := range s.requests()[begin:] {
		got = append(got, r.Header.Get("Range"))
	}
	want := []string{"bytes=100-1048575", "bytes=300100-1048575", "bytes=300100-1048575", "bytes=400000-1048575"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got requests of %q, want %q", got, want)
	}
}

func TestWhatNoRetryMendsIsAskedForOnce(t *testing.T) {
	for status, want := range map[int]error{401: fs.ErrPermission, 403: fs.ErrPermission, 404: fs.ErrNotExist, 410: fs.ErrNotExist, 412: objects.ErrChanged, 416: objects.ErrChanged, 400: nil} {
		s := newSite(t, map[string][]byte{"a": random(100)})
		store := s.store(t)
		object := info(t, store, "a")
		begin := len(s.requests())
		s.fault = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			return true
		}
		err := store.ReadRange(t.Context(), object, make([]byte, 10), 0)
		if n := len(s.requests()) - begin; n != 1 || err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("status %d: got error %v after %d requests, want %v after one", status, err, n, want)
		}
	}
}

func TestRetriesAreBounded(t *testing.T) {
	s := newSite(t, map[string][]byte{"a": random(100)})
	store := s.store(t)
	object := info(t, store, "a")
	begin := len(s.requests())
	s.fault = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	err := store.ReadRange(t.Context(), object, make([]byte, 10), 0)
	if n := len(s.requests()) - begin; n != quick.Attempts || err == nil || !strings.Contains(err.Error(), "gave up after 4 attempts: got status 429") {
		t.Errorf("got error %v after %d requests, want %d and the status", err, n, quick.Attempts)
	}
}

func TestALargeFileOfAServerWithoutRangesIsAnError(t *testing.T) {
	s := newSite(t, map[string][]byte{"large": make([]byte, 5<<20)})
	s.ranges = false
	_, err := s.store(t).Stat(t.Context(), "large")
	if err == nil || !strings.Contains(err.Error(), "does not know ranges") {
		t.Errorf("got error %v, want one that says what the server lacks", err)
	}
}

func TestRedirectsAreFollowed(t *testing.T) {
	s := newSite(t, map[string][]byte{"a": []byte("0123")})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop?secret=1", http.StatusFound)
		case r.URL.Query().Get("token") != "hidden":
			w.WriteHeader(http.StatusForbidden)
		default:
			http.Redirect(w, r, s.URL+"/data"+r.URL.Path+"?signature=hidden", http.StatusFound)
		}
	}))
	defer other.Close()
	store, object, err := objects.OpenFile(t.Context(), strings.Replace(other.URL, "://", "://user:hidden@", 1)+"/a?token=hidden")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := make([]byte, 4)
	if err := store.ReadRange(t.Context(), object, p, 0); err != nil || string(p) != "0123" {
		t.Errorf("got %q and error %v", p, err)
	}
	for _, r := range s.requests() {
		if r.Header.Get("Authorization") != "" {
			t.Error("another server got the user's password")
		}
	}
	if _, err := store.Stat(t.Context(), "loop"); err == nil || !strings.Contains(err.Error(), "more than 10 redirects") {
		t.Errorf("a loop: got error %v", err)
	}
}

// What an encrypted connection has to say is not sent over one that is not.
func TestARedirectAwayFromEncryptionIsNotFollowed(t *testing.T) {
	plain := newSite(t, map[string][]byte{"a": nil})
	encrypted := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/data/a?hidden", http.StatusFound))
	defer encrypted.Close()
	u, err := url.Parse(encrypted.URL)
	if err != nil {
		t.Fatal(err)
	}
	store := objects.NewHTTP(u, objects.HTTPConfig{Client: encrypted.Client(), Retry: patient})
	defer store.Close()
	if _, err := store.Stat(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "is not followed") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("got error %v, want one that says why, without the query", err)
	}
	if n := len(plain.requests()); n != 0 {
		t.Errorf("%d requests were sent without encryption", n)
	}
}

// A server whose certificate is not trusted, and one that does not encrypt, answer the next request
// no better.
func TestAServerThatIsNotTrustedIsAskedOnce(t *testing.T) {
	encrypted := httptest.NewUnstartedServer(http.NotFoundHandler())
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	plain := newSite(t, nil)
	for address, want := range map[string]string{encrypted.URL: "certificate", strings.Replace(plain.URL, "http:", "https:", 1): "HTTP response to HTTPS client"} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		store := objects.NewHTTP(u, objects.HTTPConfig{Retry: patient})
		defer store.Close()
		if _, err := store.Stat(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "gave up") {
			t.Errorf("%s: got error %v, want one with %q after one attempt", address, err, want)
		}
	}
}

// Messages have neither passwords nor signatures, whatever goes wrong.
func TestMessagesTellNoSecrets(t *testing.T) {
	s := newSite(t, map[string][]byte{"a": []byte("0123")})
	secret := func(host, path string) string {
		return "http://user:hidden@" + host + path + "?X-Amz-Signature=hidden&sig=hidden#hidden"
	}
	host := strings.TrimPrefix(s.URL, "http://")
	for _, address := range []string{
		secret(host, "/data/none"), secret("127.0.0.1:1", "/a"), secret("[::bad", "/a"), secret(host, "/%zz"), secret(host, "/"), secret("", "/a"),
	} {
		ctx := t.Context()
		u, err := url.Parse(address)
		if err == nil && u.Port() == "1" {
			store := objects.NewHTTP(u, objects.HTTPConfig{Retry: patient})
			_, err = store.Stat(ctx, "x")
		} else {
			_, _, err = objects.OpenFile(ctx, address)
		}
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("got error %v, want one without secrets", err)
		}
	}
}

func TestAListOfAWebServerIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for _, err := range newSite(t, nil).store(t).List(t.Context(), "") {
		if err == nil || !strings.Contains(err.Error(), "name each file") {
			t.Errorf("got error %v", err)
		}
	}
}
