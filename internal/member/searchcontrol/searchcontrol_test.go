package searchcontrol_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/searchcontrol"
)

func TestASearchIsAsked(t *testing.T) {
	dir := t.TempDir()
	if _, err := searchcontrol.Ask(t.Context(), dir, searchcontrol.Request{Op: searchcontrol.Hosts}); !errors.Is(err, searchcontrol.ErrNone) || !strings.Contains(err.Error(), dir) {
		t.Errorf("without a search: got %v", err)
	}
	s, err := searchcontrol.Serve(dir, func(_ context.Context, q searchcontrol.Request) (string, error) {
		if q.Op != searchcontrol.Add {
			return "", errors.New("got " + q.Op)
		}
		return q.Host + "\nwas added", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := searchcontrol.Ask(t.Context(), dir, searchcontrol.Request{Op: searchcontrol.Add, Host: "d1 slots=2"}); got != "d1 slots=2\nwas added" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := searchcontrol.Ask(t.Context(), dir, searchcontrol.Request{Op: searchcontrol.Remove}); err == nil || err.Error() != "got remove" {
		t.Errorf("what is refused: got %v", err)
	}
	file := filepath.Join(dir, "control.json")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("control.json: %v, %v; want a file that only its user may read", info.Mode(), err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(string(text), `"token":"`, `"token":"x`, 1))
	if _, err := searchcontrol.Ask(t.Context(), dir, searchcontrol.Request{Op: searchcontrol.Add}); !errors.Is(err, searchcontrol.ErrNone) {
		t.Errorf("with a wrong token: got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is left")
	}
	write(string(text)) // as after kill -9
	if _, err := searchcontrol.Ask(t.Context(), dir, searchcontrol.Request{Op: searchcontrol.Add}); !errors.Is(err, searchcontrol.ErrNone) || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("after the end: got %v", err)
	}
	write("{\n")
	if _, err := searchcontrol.Ask(t.Context(), dir, searchcontrol.Request{Op: searchcontrol.Add}); err == nil || !strings.Contains(err.Error(), "control.json") {
		t.Errorf("a broken file: got %v", err)
	}
}

// Close returns while a request is under way, and while somebody has connected and says nothing.
func TestCloseWaitsForNobody(t *testing.T) {
	dir, asked := t.TempDir(), make(chan struct{})
	s, err := searchcontrol.Serve(dir, func(ctx context.Context, _ searchcontrol.Request) (string, error) {
		close(asked)
		<-ctx.Done()
		return "", ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "control.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `"address":"`)
	address, _, _ := strings.Cut(rest, `"`)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	done := make(chan error, 1)
	go func() {
		_, err := searchcontrol.Ask(t.Context(), dir, searchcontrol.Request{Op: searchcontrol.Hosts})
		done <- err
	}()
	<-asked
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("a request that was not answered has no error")
	}
}

// An older launch asks in a line of JSON, and is told so in one. A search of an older launch is not
// asked at all.
func TestAnotherVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := searchcontrol.Serve(dir, func(context.Context, searchcontrol.Request) (string, error) {
		t.Error("the search was asked")
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file := filepath.Join(dir, "control.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `"address":"`)
	address, _, _ := strings.Cut(rest, `"`)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, `{"token":"x","op":"hosts"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != `{"error":"the search was started by a newer version of launch: use that one"}`+"\n" || err != nil {
		t.Errorf("a line: got %q, %v", got, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), `"version":2,`, "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = searchcontrol.Ask(t.Context(), dir, searchcontrol.Request{Op: searchcontrol.Hosts})
	if err == nil || !strings.Contains(err.Error(), "was started by an older version of launch (control.json of version 0, want 2)") {
		t.Errorf("an older search: got %v", err)
	}
}

// Anybody on this machine can connect, and say nothing: the search has so many such connections and
// no more, and answers whoever has the token.
func TestConnectionsWithoutTheTokenAreBounded(t *testing.T) {
	dir := t.TempDir()
	s, err := searchcontrol.Serve(dir, func(context.Context, searchcontrol.Request) (string, error) { return "yes", nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text, err := os.ReadFile(filepath.Join(dir, "control.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `"address":"`)
	address, _, _ := strings.Cut(rest, `"`)
	var first net.Conn
	for i := range 65 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i == 0 {
			first = c
		}
	}
	begin := time.Now()
	if _, err := first.Read(make([]byte, 1)); err == nil || time.Since(begin) > 3*time.Second {
		t.Errorf("the first of 65 connections: error %v after %v, want that it gave way at once", err, time.Since(begin))
	}
	if got, err := searchcontrol.Ask(t.Context(), dir, searchcontrol.Request{Op: searchcontrol.Hosts}); got != "yes" || err != nil {
		t.Errorf("beside 64 that say nothing: got %q, %v", got, err)
	}
}
