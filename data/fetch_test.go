package data

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A mirror serves one file, and notes what was asked for.
type mirror struct {
	*httptest.Server
	body   []byte
	mu     sync.Mutex // guards what follows
	ranges []string

	// cut closes the connection after so many bytes, once.
	cut int

	deaf   bool // ignores ranges
	status int
}

func newMirror(t *testing.T, body []byte) *mirror {
	m := &mirror{body: body}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ranges = append(m.ranges, r.Header.Get("Range"))
		switch {
		case m.status != 0:
			w.WriteHeader(m.status)
		case m.cut > 0:
			w.Header().Set("Content-Length", fmt.Sprint(len(m.body)))
			_, _ = w.Write(m.body[:m.cut])
			m.cut = 0
			panic(http.ErrAbortHandler)
		case m.deaf:
			_, _ = w.Write(m.body)
		default:
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(m.body))
		}
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) file() File {
	sum := md5.Sum(m.body)
	return File{Name: "set.gz", URLs: []string{m.URL}, Bytes: int64(len(m.body)), MD5: hex.EncodeToString(sum[:])}
}

func body(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * i >> 3)
	}
	return b
}

func wantFile(t *testing.T, dir string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, "set.gz"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("fetched file: got %d bytes, want the %d served (%v)", len(got), len(want), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestFetchBringsAFileOnceAndChecksIt(t *testing.T) {
	m, dir := newMirror(t, body(100_000)), filepath.Join(t.TempDir(), "new")
	for range 2 {
		if err := Fetch(t.Context(), m.Client(), dir, m.file()); err != nil {
			t.Fatal(err)
		}
	}
	wantFile(t, dir, m.body)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ranges) != 1 {
		t.Errorf("requests: got %d, want 1", len(m.ranges))
	}
}

func TestFetchGoesOnWhereItWasCut(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		m, dir := newMirror(t, body(300_000)), t.TempDir()
		m.cut, m.deaf = 200_000, deaf
		err := Fetch(t.Context(), m.Client(), dir, m.file())
		if err == nil || !strings.Contains(err.Error(), "of 300000 bytes") {
			t.Fatalf("cut: got error %v, want one with the bytes", err)
		}
		info, err := os.Stat(filepath.Join(dir, "set.gz.part"))
		if err != nil {
			t.Fatal(err)
		}
		if err := Fetch(t.Context(), m.Client(), dir, m.file()); err != nil {
			t.Fatal(err)
		}
		wantFile(t, dir, m.body)
		m.mu.Lock()
		if want := fmt.Sprintf("bytes=%d-", info.Size()); m.ranges[1] != want || info.Size() == 0 {
			t.Errorf("second request: got range %q, want %q", m.ranges[1], want)
		}
		m.mu.Unlock()
	}
}

func TestAnEarlierPartOfAnotherFileIsFetchedAnew(t *testing.T) {
	m, dir := newMirror(t, body(10_000)), t.TempDir()
	writeFile(t, filepath.Join(dir, "set.gz.part"), bytes.Repeat([]byte{9}, 5000))
	if err := Fetch(t.Context(), m.Client(), dir, m.file()); err != nil {
		t.Fatal(err)
	}
	wantFile(t, dir, m.body)
	writeFile(t, filepath.Join(dir, "set.gz.part"), bytes.Repeat([]byte{9}, 20_000)) // longer than the file
	if err := os.Remove(filepath.Join(dir, "set.gz")); err != nil {
		t.Fatal(err)
	}
	if err := Fetch(t.Context(), m.Client(), dir, m.file()); err != nil {
		t.Fatal(err)
	}
	wantFile(t, dir, m.body)
}

func TestFetchRefusesAnotherFileAndTriesTheNextAddress(t *testing.T) {
	wrong, gone, right := newMirror(t, body(9_999)), newMirror(t, nil), newMirror(t, body(10_000))
	gone.status = http.StatusNotFound
	f := right.file()
	dir := t.TempDir()
	f.URLs = []string{wrong.URL, gone.URL}
	err := Fetch(t.Context(), nil, dir, f)
	for _, want := range []string{"got 9999 bytes, want 10000", "404", wrong.URL, gone.URL, "by hand to " + filepath.Join(dir, "set.gz")} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "set.gz")); err == nil {
		t.Error("a file that was refused: got its name")
	}
	f.URLs = append(f.URLs, right.URL)
	if err := Fetch(t.Context(), nil, dir, f); err != nil {
		t.Fatal(err)
	}
	wantFile(t, dir, right.body)
}

func TestFetchEndsWithItsContext(t *testing.T) {
	m := newMirror(t, body(100))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Fetch(ctx, m.Client(), t.TempDir(), m.file()); err == nil {
		t.Error("got no error")
	}
}

// silent is a server that answers with a few bytes and then nothing.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	in, out := io.Pipe()
	go func() {
		for range 3 {
			time.Sleep(50 * time.Second)
			_, _ = out.Write(make([]byte, 10))
		}
		<-r.Context().Done()
		out.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: in, Request: r}, nil
}

func TestFetchGivesUpASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := File{Name: "set.gz", URLs: []string{"http://silent.test/"}, Bytes: 100}
		err := Fetch(t.Context(), &http.Client{Transport: silent{}}, t.TempDir(), f)
		if err == nil || !strings.Contains(err.Error(), "after 30 of 100 bytes: the server sent nothing for 1m0s") {
			t.Errorf("got error %v", err)
		}
		if got := time.Since(start); got != 210*time.Second {
			t.Errorf("gave up after %v, want 3 × 50 s and a minute", got)
		}
	})
}
