package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/checkpoint/bucket"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
	"github.com/paragon-train/paragon/internal/testing/s3test"
)

// attempts is how often a request is tried in these tests, which cannot wait for long.
const attempts = 4

func TestMain(m *testing.M) {
	bucket.SetRetries(objects.RetryConfig{Attempts: attempts, First: time.Millisecond, Most: 2 * time.Millisecond,
		Stall: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	os.Exit(m.Run())
}

func openStore(t *testing.T, address string) objects.Store {
	t.Helper()
	store, err := objects.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// A recorder notes the requests that a server got, and makes some of them go wrong.
type recorder struct {
	*s3test.Server

	mu       sync.Mutex // guards the rest
	requests []*http.Request
	fault    func(n int, r *http.Request) s3test.Answer // of request n from 1 since it was set; nil: none
}

func newRecorder(t *testing.T) *recorder {
	s := &recorder{Server: s3test.New(t)}
	s.Fault = func(r *http.Request) s3test.Answer {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		n, fault := len(s.requests), s.fault
		s.mu.Unlock()
		if fault == nil {
			return s3test.Answer{}
		}
		return fault(n, r)
	}
	return s
}

// fail makes requests go wrong from now on, and counts them anew.
func (s *recorder) fail(fault func(n int, r *http.Request) s3test.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.fault = nil, fault
}

func (s *recorder) seen() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// openOne opens the server's bucket, which has one object, and describes it.
func (s *recorder) openOne(t *testing.T, data []byte) (objects.Store, objects.Info) {
	t.Helper()
	s.Put("some/run/a", data)
	store := openStore(t, s.URL("some/run"))
	t.Cleanup(func() { store.Close() })
	object, err := store.Stat(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	return store, object
}

// Objects of a bucket are read as files are.
func TestABucketIsAStore(t *testing.T) {
	t.Run("s3", func(t *testing.T) {
		var s *s3test.Server
		objectstest.TestStore(t, objectstest.Suite{
			Make: func(t *testing.T, contents map[string][]byte) objects.Store {
				s = s3test.New(t)
				for name, data := range contents {
					s.Put("some/run/"+name, data)
				}
				s.Put("some/runner", nil)
				s.Put("some/run/folder/", nil)
				return openStore(t, s.URL("some/run"))
			},
			Replace: func(_ *testing.T, name string, data []byte) { s.Put("some/run/"+name, data) },
			Remove:  func(_ *testing.T, name string) { s.Delete("some/run/" + name) },
		})
	})
	t.Run("mem", func(t *testing.T) {
		var place checkpoint.Place
		put := func(t *testing.T, name string, data []byte) {
			if err := write(place, name, string(data)); err != nil {
				t.Fatal(err)
			}
		}
		objectstest.TestStore(t, objectstest.Suite{
			Make: func(t *testing.T, contents map[string][]byte) objects.Store {
				address := "mem://" + strings.ReplaceAll(t.Name(), "/", "-") + "/of/a run"
				var err error
				if place, err = checkpoint.OpenPlace(t.Context(), address); err != nil {
					t.Fatal(err)
				}
				for name, data := range contents {
					put(t, name, data)
				}
				return openStore(t, address)
			},
			Replace: put,
			Remove: func(t *testing.T, name string) {
				if err := place.Remove(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// A body that is cut, a busy server and a body that stalls do not end a read.
func TestAReadOfABucketGoesOnWhereItWas(t *testing.T) {
	s, data := newRecorder(t), bytes.Repeat([]byte("0123456789abcdefg"), 60_000)
	store, object := s.openOne(t, data)
	s.fail(func(n int, _ *http.Request) s3test.Answer {
		return []s3test.Answer{{Cut: 300_000}, {Status: 503, Code: "SlowDown"}, {Stall: 100_000}, {}}[n-1]
	})
	p := make([]byte, len(data)-100)
	if err := store.ReadRange(t.Context(), object, p, 100); err != nil || !bytes.Equal(p, data[100:]) {
		t.Errorf("got error %v, or other bytes", err)
	}
	var got, want []string
	for _, r := range s.seen() {
		got = append(got, r.Header.Get("Range")+" "+r.Header.Get("If-Match"))
	}
	for _, from := range []int{100, 300_100, 300_100, 400_100} {
		want = append(want, fmt.Sprintf("bytes=%d-%d \"%s\"", from, len(data)-1, object.Version))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got requests of %q, want %q", got, want)
	}
}

// An object that is replaced while it is read is an error and no mixture, also where the server
// does not heed the condition of a request.
func TestAnObjectReplacedUnderAReadIsNoMixture(t *testing.T) {
	for _, heedless := range []bool{false, true} {
		s := newRecorder(t)
		store, object := s.openOne(t, bytes.Repeat([]byte("o"), 100_000))
		s.fail(func(n int, _ *http.Request) s3test.Answer {
			if n == 1 {
				return s3test.Answer{Cut: 50_000}
			}
			s.Put("some/run/a", bytes.Repeat([]byte("n"), 100_000))
			return s3test.Answer{Heedless: heedless}
		})
		if err := store.ReadRange(t.Context(), object, make([]byte, 100_000), 0); !errors.Is(err, objects.ErrChanged) {
			t.Errorf("heedless %v: got error %v, want %v", heedless, err, objects.ErrChanged)
		}
	}
}

// What no retry mends is asked for once, and said by its code.
func TestWhatABucketRefusesIsAskedForOnce(t *testing.T) {
	for _, c := range []struct {
		answer s3test.Answer
		want   error // nil: any
	}{
		{s3test.Answer{Status: 403, Code: "InvalidAccessKeyId"}, fs.ErrPermission},
		{s3test.Answer{Status: 403, Code: "SignatureDoesNotMatch"}, fs.ErrPermission},
		{s3test.Answer{Status: 403, Code: "AccessDenied"}, fs.ErrPermission},
		{s3test.Answer{Status: 401, Code: "Unauthorized"}, fs.ErrPermission},
		{s3test.Answer{Status: 400, Code: "ExpiredToken"}, nil},
		{s3test.Answer{Status: 404, Code: "NoSuchBucket"}, fs.ErrNotExist},
		{s3test.Answer{Status: 301, Code: "PermanentRedirect"}, nil},
	} {
		s := newRecorder(t)
		store, object := s.openOne(t, []byte("0123"))
		s.fail(func(int, *http.Request) s3test.Answer { return c.answer })
		err := store.ReadRange(t.Context(), object, make([]byte, 4), 0)
		if n := len(s.seen()); n != 1 || err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.answer.Code) {
			t.Errorf("%s: got error %v after %d requests, want %v after one", c.answer.Code, err, n, c.want)
		}
		for _, err := range store.List(t.Context(), "") {
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: list: got error %v, want %v", c.answer.Code, err, c.want)
			}
		}
	}
}

func TestWrongCredentialsAreErrPermission(t *testing.T) {
	s := s3test.New(t)
	s.Put("a", nil)
	t.Setenv("AWS_ACCESS_KEY_ID", "another")
	store := openStore(t, s.URL(""))
	defer store.Close()
	if _, err := store.Stat(t.Context(), "a"); !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), s3test.Secret) {
		t.Errorf("got error %v, want %v without the secret", err, fs.ErrPermission)
	}
}

// Without credentials the answer is that there are none, and at once.
func TestABucketWithoutCredentialsIsAnErrorAtOnce(t *testing.T) {
	s := newRecorder(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	store := openStore(t, s.URL("some/run"))
	defer store.Close()
	if _, err := store.Stat(t.Context(), "a"); !errors.Is(err, fs.ErrPermission) || len(s.seen()) != 0 {
		t.Errorf("got error %v after %d requests, want %v after none", err, len(s.seen()), fs.ErrPermission)
	}
}

// An address that cannot be is the first answer: no request could be sent to it, however often.
func TestABucketWithoutAnAddressIsNotOpened(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	for region, query := range map[string]string{"no_region!": "", "": "?region=eu_central_1"} {
		t.Setenv("AWS_REGION", region)
		store, err := objects.Open(t.Context(), "s3://some-bucket/run"+query)
		if err == nil {
			store.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "Invalid region") || !strings.Contains(err.Error(), "AWS_REGION") {
			t.Errorf("AWS_REGION=%s and %q: got error %v, want that the region is invalid, and what to set", region, query, err)
		}
	}
}

func TestABucketThatIsNotTrustedIsAskedOnce(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	store := openStore(t, "s3://some-bucket/run?region=eu-central-1&use_path_style=true&endpoint="+server.URL)
	defer store.Close()
	for _, err := range store.List(t.Context(), "") {
		if err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "gave up") {
			t.Errorf("got error %v, want one of the certificate after one attempt", err)
		}
	}
}

func TestABusyBucketIsGivenUpAtLast(t *testing.T) {
	s := newRecorder(t)
	store, object := s.openOne(t, []byte("0123"))
	s.fail(func(int, *http.Request) s3test.Answer { return s3test.Answer{Status: 503, Code: "SlowDown"} })
	err := store.ReadRange(t.Context(), object, make([]byte, 4), 0)
	if n := len(s.seen()); n != attempts || err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("got error %v after %d requests, want SlowDown after %d", err, n, attempts)
	}
}

// A list of several pages goes on at the page that failed.
func TestAListOfABucketHasAllPages(t *testing.T) {
	s := newRecorder(t)
	for i := range 2500 {
		s.Put(fmt.Sprintf("some/run/%05d", i), []byte("x"))
	}
	s.fail(func(n int, _ *http.Request) s3test.Answer {
		if n == 2 || n == 3 {
			return s3test.Answer{Status: 500}
		}
		return s3test.Answer{}
	})
	store := openStore(t, s.URL("some/run"))
	defer store.Close()
	i := 0
	for info, err := range store.List(t.Context(), "") {
		if want := fmt.Sprintf("%05d", i); err != nil || info.Name != want || info.Size != 1 || info.Version == "" {
			t.Fatalf("got %+v and error %v, want %s", info, err, want)
		}
		i++
	}
	// Two of them look in vain for folders.
	if n := len(s.seen()); i != 2500 || n != 7 {
		t.Errorf("got %d objects by %d requests, want 2500 by 5 and 2 that failed", i, n)
	}
}

// Folders of a large list are listed at once: the list is the same.
func TestAListOfABucketsFoldersHasAllObjects(t *testing.T) {
	s := s3test.New(t)
	var want []string
	for class := range 12 {
		for i := range 150 {
			want = append(want, fmt.Sprintf("train/n%d/%d.jpg", class, i))
		}
	}
	want = append(want, "train.txt", "train/README", "train/n1-x", "val/a")
	for _, name := range want {
		s.Put("some/run/"+name, []byte("x"))
	}
	s.Put("some/run/train/", nil)
	s.Put("some/run/train/n3/", nil)
	slices.Sort(want)
	store := openStore(t, s.URL("some/run"))
	defer store.Close()
	var got []string
	for info, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d objects, want %d", len(got), len(want))
	}
	// A page of the whole, two levels, and a page for each of 12 classes and val.
	if n := s.Counts().Lists.Load(); n < 10 {
		t.Errorf("got %d lists, want one for each folder", n)
	}
}

// Connections are used again, also those of many requests at once: each new one costs several round
// trips.
func TestReadsAtOnceUseConnectionsAgain(t *testing.T) {
	s := newRecorder(t)
	s.Latency = 5 * time.Millisecond
	store, object := s.openOne(t, make([]byte, 640_000))
	ahead := objects.NewAhead(store, objects.AheadConfig{Gap: -1})
	var ranges []objects.Range
	for i := range 640 {
		ranges = append(ranges, objects.Range{Object: object, Off: int64(i * 1000), Length: 999})
	}
	for some := range slices.Chunk(ranges, 64) { // Batch by batch: all connections are idle between.
		ahead.Announce(t.Context(), some)
		for _, r := range some {
			if err := ahead.ReadRange(t.Context(), object, make([]byte, 999), r.Off); err != nil {
				t.Fatal(err)
			}
		}
	}
	connections := map[string]bool{}
	for _, r := range s.seen() {
		connections[r.RemoteAddr] = true
	}
	if n := len(connections); n > 100 {
		t.Errorf("640 reads, 64 at once and then none, took %d connections, want at most 100", n)
	}
}

func TestAReadOfABucketEndsWithItsContext(t *testing.T) {
	s := newRecorder(t)
	store, object := s.openOne(t, []byte("0123"))
	ctx, cancel := context.WithCancel(t.Context())
	s.fail(func(_ int, r *http.Request) s3test.Answer {
		cancel()
		<-r.Context().Done()
		return s3test.Answer{}
	})
	if err := store.ReadRange(ctx, object, make([]byte, 4), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// One object is opened by its URL, and read in sequence.
func TestOneObjectOfABucketIsOpened(t *testing.T) {
	s := s3test.New(t)
	s.Put("some/run/a b.rec", bytes.Repeat([]byte("0123"), 100_000))
	store, object, err := objects.OpenFile(t.Context(), s.URL("some/run/a%20b.rec"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	got, err := io.ReadAll(objects.NewReader(t.Context(), store, object))
	if err != nil || len(got) != 400_000 {
		t.Errorf("got %d bytes and error %v, want 400000", len(got), err)
	}
}
