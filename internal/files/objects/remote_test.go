package objects_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A script is a Backend whose answers are written down.
type script struct {
	get  func(n int, off, length int64) (io.ReadCloser, error)
	page func(n int, token string) ([]objects.Info, string, error)
	n    int
}

func (s *script) URL() string { return "script://" }
func (s *script) Page(_ context.Context, _, token string) ([]objects.Info, string, error) {
	s.n++
	return s.page(s.n, token)
}
func (s *script) Stat(context.Context, string) (objects.Info, error) {
	return objects.Info{}, fs.ErrNotExist
}
func (s *script) Get(_ context.Context, _ objects.Info, off, length int64) (io.ReadCloser, error) {
	s.n++
	return s.get(s.n, off, length)
}
func (s *script) Close() error { return nil }

// A stalling backend sends one byte of two, and then nothing until the request ends.
type stalling struct{ script }

func (s *stalling) Get(ctx context.Context, _ objects.Info, off, _ int64) (io.ReadCloser, error) {
	if off == 1 {
		return io.NopCloser(strings.NewReader("b")), nil
	}
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte("a"))
		<-ctx.Done()
		w.CloseWithError(ctx.Err())
	}()
	return r, nil
}

func quiet() objects.RetryConfig { return objects.RetryConfig{Logger: slog.New(slog.DiscardHandler)} }

// Waits double, are bounded, and as long as a server asks for, up to a minute.
func TestWaitsBetweenAttemptsGrowAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		s := &script{get: func(int, int64, int64) (io.ReadCloser, error) {
			at = append(at, time.Now())
			return nil, errors.New("broken")
		}}
		err := objects.NewRemote(s, quiet()).ReadRange(t.Context(), objects.Info{Name: "a", Size: 1}, make([]byte, 1), 0)
		if err == nil || s.n != 12 {
			t.Errorf("got error %v after %d attempts, want 12", err, s.n)
		}
		most := 100 * time.Millisecond
		for i := 1; i < len(at); i++ {
			if wait := at[i].Sub(at[i-1]); wait < most/2 || wait > most+time.Microsecond {
				t.Errorf("wait %d was %v, want from %v to %v", i, wait, most/2, most)
			}
			most = min(2*most, 10*time.Second)
		}
		for asked, want := range map[time.Duration]time.Duration{20 * time.Second: 20 * time.Second, time.Hour: time.Minute} {
			began := time.Now()
			s := &script{get: func(n int, _, _ int64) (io.ReadCloser, error) {
				if n == 1 {
					return nil, objects.RetryAfter(errors.New("busy"), asked)
				}
				return io.NopCloser(strings.NewReader("x")), nil
			}}
			if err := objects.NewRemote(s, quiet()).ReadRange(t.Context(), objects.Info{Name: "a", Size: 1}, make([]byte, 1), 0); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("asked to wait %v: waited %v, want %v", asked, took, want)
			}
		}
	})
}

// As long as bytes come, a read goes on, up to a bound; what stalls for a minute is asked for anew.
func TestProgressBeginsTheCountOfAttemptsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		byByte := func(int, int64, int64) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
		read := func(size int) error {
			return objects.NewRemote(&script{get: byByte}, quiet()).ReadRange(t.Context(), objects.Info{Name: "a", Size: int64(size)}, make([]byte, size), 0)
		}
		if err := read(50); err != nil {
			t.Errorf("50 bytes one by one: %v", err)
		}
		if err := read(1000); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("1000 bytes one by one: got error %v, want %v at last", err, io.ErrUnexpectedEOF)
		}

		began := time.Now()
		s := &stalling{}
		p := make([]byte, 2)
		err := objects.NewRemote(s, quiet()).ReadRange(t.Context(), objects.Info{Name: "a", Size: 2}, p, 0)
		if took := time.Since(began); err != nil || string(p) != "ab" || took < time.Minute || took > 61*time.Second {
			t.Errorf("a body that stalls: got %q and error %v after %v, want a minute", p, err, took)
		}
	})
}

func TestACallEndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{get: func(int, int64, int64) (io.ReadCloser, error) { return nil, errors.New("broken") }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := objects.NewRemote(s, quiet()).ReadRange(ctx, objects.Info{Name: "a", Size: 1}, make([]byte, 1), 0)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got error %v after %v, want %v after a second", err, time.Since(began), context.DeadlineExceeded)
		}
	})
}

// A page that fails is asked for again; those before are not.
func TestAListGoesOnAtThePageThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		s := &script{page: func(n int, token string) ([]objects.Info, string, error) {
			asked = append(asked, token)
			switch n {
			case 1:
				return []objects.Info{{Name: "a"}, {Name: "b"}}, "2", nil
			case 2:
				return nil, "", errors.New("broken")
			case 3:
				// An empty page is not the end.
				return nil, "3", nil
			}
			return []objects.Info{{Name: "c"}}, "", nil
		}}
		var got []string
		for info, err := range objects.NewRemote(s, quiet()).List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.Name)
		}
		if fmt.Sprint(got) != "[a b c]" || fmt.Sprintf("%q", asked) != `["" "2" "2" "3"]` {
			t.Errorf("got %q by pages %q", got, asked)
		}
		for range objects.NewRemote(&script{page: s.page}, quiet()).List(t.Context(), "") {
			break
		}
		for name, page := range map[string]func(int, string) ([]objects.Info, string, error){
			"out of order": func(int, string) ([]objects.Info, string, error) {
				return []objects.Info{{Name: "b"}, {Name: "a"}}, "", nil
			},
			"the same page again": func(int, string) ([]objects.Info, string, error) { return nil, "1", nil },
		} {
			var last error
			for _, err := range objects.NewRemote(&script{page: page}, quiet()).List(t.Context(), "") {
				last = err
			}
			if last == nil {
				t.Errorf("%s: got no error", name)
			}
		}
	})
}

// The log is told once about a request that fails for long.
func TestARequestThatFailsForLongIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		cfg := objects.RetryConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		s := &script{get: func(int, int64, int64) (io.ReadCloser, error) { return nil, errors.New("broken") }}
		_ = objects.NewRemote(s, cfg).ReadRange(t.Context(), objects.Info{Name: "a", Size: 1}, make([]byte, 1), 0)
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "read a in script://") {
			t.Errorf("got %d lines of log, want one that names the read:\n%s", n, log.String())
		}
	})
}
