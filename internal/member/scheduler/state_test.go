package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// states are places where a State can be, made for a test, each opened by a function that may be
// called again.
func states(t testing.TB) map[string]string {
	places := map[string]string{"bolt": filepath.Join(t.TempDir(), "state")}
	if etcd := startEtcd(t); etcd != "" {
		places["etcd"] = etcd
	}
	return places
}

// startEtcd starts an etcd of one member and returns the place of a state in it; "" if this machine
// has no etcd.
func startEtcd(t testing.TB) string {
	path, err := exec.LookPath("etcd")
	if err != nil {
		return ""
	}
	urls := make([]string, 2)
	for i := range urls {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		urls[i] = "http://" + ln.Addr().String()
		ln.Close()
	}
	cmd := exec.Command(path, "--data-dir", t.TempDir(), "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
		"--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--initial-cluster", "default="+urls[1], "--log-level", "error")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	place := "etcd://" + strings.TrimPrefix(urls[0], "http://") + "/paragon/test"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		st, err := OpenState(ctx, place)
		if err == nil {
			st.Close()
			return place
		}
		select {
		case <-ctx.Done():
			t.Fatalf("etcd does not answer: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestAStateHoldsTheNewestOfEachRecord(t *testing.T) {
	t.Parallel()
	places := states(t)
	if places["etcd"] == "" {
		t.Log("there is no etcd on this machine: only files are tested")
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			want := journalRecords{}
			var st State
			open := func() {
				var err error
				if st, err = OpenState(t.Context(), place); err != nil {
					t.Fatal(err)
				}
			}
			write := func(records ...Record) {
				t.Helper()
				if err := st.Write(t.Context(), records); err != nil {
					t.Fatal(err)
				}
				want.take(Output{Records: records})
			}
			check := func(when string) {
				t.Helper()
				got, err := st.Load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				// This is much quicker than cmp where there are many.
				if want := want.list(); !reflect.DeepEqual(want, got) {
					t.Fatalf("%s: %s", when, cmp.Diff(want, got))
				}
			}
			open()
			check("at first")
			write(Record{"job", []byte("1")}, Record{"node/1", []byte("a")}, Record{"job", []byte("2")}, Record{"node/1", nil}, Record{"none", nil})
			check("after a few")
			// These are more than a transaction of etcd may have, and than a page.
			many := make([]Record, 1234)
			for i := range many {
				many[i] = Record{fmt.Sprintf("key/%08d", i), []byte(strings.Repeat("x", i))}
			}
			write(many...)
			check("after many")
			for i := range many {
				many[i].Value = nil
			}
			write(many[5:]...)
			write(Record{"job", []byte("3")})
			st.Close()
			open()
			check("opened again")
			st.Close()
		})
	}
}

// A scheduler that hangs, and comes to itself when another one runs, must not write any more.
func TestOneSchedulerKeepsItsRecordsInAState(t *testing.T) {
	t.Parallel()
	for name, place := range states(t) {
		t.Run(name, func(t *testing.T) {
			first, err := OpenState(t.Context(), place)
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			second, err := OpenState(t.Context(), place)
			if name == "bolt" {
				if !errors.Is(err, ErrTaken) {
					t.Errorf("a second scheduler opened the file: got %v, want ErrTaken", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			if err := first.Write(t.Context(), []Record{{"job", []byte("first")}}); !errors.Is(err, ErrTaken) {
				t.Errorf("the first one wrote: got %v, want ErrTaken", err)
			}
			if err := second.Write(t.Context(), []Record{{"job", []byte("second")}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A large write in etcd that broke off counts if its last part was written, and else not at all.
func TestALargeWriteThatBrokeOffIsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	place := startEtcd(t)
	if place == "" {
		t.Skip("there is no etcd on this machine")
	}
	for _, c := range []struct {
		name  string
		parts []Record
		want  int
	}{
		{"without its end", []Record{{"00000000", []byte(`[{"Key":"a","Value":"YQ=="}]`)}}, 0},
		{"with its end", []Record{{"00000000", []byte(`[{"Key":"a","Value":"YQ=="}]`)}, {"00000001", []byte(`[{"Key":"b","Value":"YQ=="}]`)}, {"end", []byte("1")}}, 2},
	} {
		st, err := OpenState(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		s := st.(*etcdState)
		for _, p := range c.parts {
			if err := s.txn(t.Context(), []etcdOp{{Put: &etcdPut{[]byte(s.prefix + "/w/" + p.Key), p.Value}}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			got, err := st.Load(t.Context())
			if err != nil || len(got) != c.want {
				t.Errorf("%s: got %d records and error %v, want %d", c.name, len(got), err, c.want)
			}
		}
	}
}

func TestAStateThatCannotBeIsRefused(t *testing.T) {
	for place, want := range map[string]string{
		"redis://h:1/x":                           `state "redis://h:1/x": want the path of a file, etcd://host:port/prefix`,
		"etcd://h:1":                              "want etcd://host:port[,host:port...]/prefix",
		"etcd://user:geheim@h:1/x":                "without a user",
		filepath.Join(t.TempDir(), "no/such/dir"): "scheduler: open state ",
		"etcd://127.0.0.1:1/x":                    "connection refused",
	} {
		_, err := OpenState(t.Context(), place)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: got %v, want %q", place, err, want)
		}
	}
}

func TestAnEndedJobsStateIsTakenByTheNext(t *testing.T) {
	set := Settings{Job: "first", Workers: 1, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}
	st, err := OpenState(t.Context(), filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c, err := begin(t.Context(), st, set)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(e Event) {
		if err := st.Write(t.Context(), c.Step(e).Records); err != nil {
			t.Fatal(err)
		}
	}
	keep(Event{At: time.Now()})
	other := set
	other.Job = "second"
	if _, err := begin(t.Context(), st, other); err == nil || !strings.Contains(err.Error(), `it is of job "first", this is job "second"`) {
		t.Errorf("while the first job runs: got %v", err)
	}
	keep(Event{At: time.Now(), Stop: "enough"})
	c, err = begin(t.Context(), st, other)
	if err != nil {
		t.Fatal(err)
	}
	if phase, _ := c.Phase(); phase != 1 {
		t.Errorf("the second job begins in phase %d, want 1", phase)
	}
	if left, err := st.Load(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("the first job left %d records, error %v", len(left), err)
	}
}

// go test ./internal/member/scheduler -run xxx -bench StateWrite
func BenchmarkStateWrite(b *testing.B) {
	for name, place := range states(b) {
		b.Run("state="+name, func(b *testing.B) {
			st, err := OpenState(b.Context(), place)
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			records := []Record{{"job", []byte(strings.Repeat("x", 1000))}, {"barrier/000000000001", []byte("step 1")}}
			for b.Loop() {
				if err := st.Write(b.Context(), records); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
