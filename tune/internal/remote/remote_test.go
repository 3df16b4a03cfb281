package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
)

// backend is a trial that stops at a step.
type backend struct {
	mu     sync.Mutex
	stopAt int
	told   []string
	kept   map[int]string
	dir    string
	parts  atomic.Int64 // of checkpoints that have come
}

func (b *backend) Decide(step int, metrics map[string]float64) (Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if step < 0 {
		return Answer{}, fmt.Errorf("step %d is below 0", step)
	}
	b.told = append(b.told, fmt.Sprintf("%d:%v", step, metrics["accuracy"]))
	if step >= b.stopAt {
		return Answer{Action: "stop", Rule: "enough"}, nil
	}
	return Answer{Action: "continue"}, nil
}

func (b *backend) Checkpoint(step int, write func(dir string) error) error {
	if b.kept[step] != "" {
		return nil
	}
	dir := filepath.Join(b.dir, strconv.Itoa(step))
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	if err := write(dir); err != nil {
		return err
	}
	b.kept[step] = dir
	return nil
}

// Alive implements Backend.
func (b *backend) Alive() { b.parts.Add(1) }

// testLimit bounds the checkpoints that are copied in tests.
const testLimit = 8 << 20

func newServer(t *testing.T, host string) *Server {
	t.Helper()
	s, err := Listen(host, testLimit)
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

func newBackend(t *testing.T, stopAt int) *backend {
	return &backend{stopAt: stopAt, kept: make(map[int]string), dir: t.TempDir()}
}

var task = Task{Study: "toy", Trial: 7, Attempt: 2, Params: json.RawMessage(`{"lr":0.01}`), Seed: 1 << 63, Workers: 2,
	Restore: &Restore{Dir: "/x", Step: 3, Donor: 4}}

// environment is a lookup in the session's variables and these.
func environment(x *Session, more ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, v := range append(x.Environment(), more...) {
			if n, value, _ := strings.Cut(v, "="); n == name {
				return value, true
			}
		}
		return "", false
	}
}

func dial(t *testing.T, x *Session, rank int) *Client {
	t.Helper()
	c, found, err := Dial(t.Context(), environment(x, "PARAGON_RANK="+strconv.Itoa(rank)))
	if err != nil || !found {
		t.Fatalf("dial as rank %d: found %v, %v", rank, found, err)
	}
	return c
}

func TestATrialsProcessReportsKeepsAndEnds(t *testing.T) {
	for _, host := range []string{"", "127.0.0.1"} {
		s := newServer(t, host)
		b := newBackend(t, 2)
		x := s.Open(task, nil, b)
		c := dial(t, x, 0)
		if got := c.Task(); string(got.Params) != `{"lr":0.01}` || got.Seed != 1<<63 || *got.Restore != *task.Restore {
			t.Errorf("the task is %+v, want %+v", got, task)
		}
		for step, want := range map[int]string{1: "continue", -1: "", 2: "stop"} {
			a, err := c.Report(t.Context(), step, map[string]float64{"accuracy": math.Inf(-1), "x": math.NaN()})
			if a.Action != want || (err != nil) != (want == "") {
				t.Errorf("step %d: answer %+v, %v, want %q", step, a, err, want)
			}
		}
		for range 2 { // the second time it is kept already
			if err := c.Checkpoint(t.Context(), 2, func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "w"), []byte("weights"), 0o666)
			}); err != nil {
				t.Error(err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(b.dir, "2", "w")); string(got) != "weights" {
			t.Errorf("the checkpoint holds %q, %v", got, err)
		}
		full := errors.New("disk full")
		if err := c.Checkpoint(t.Context(), 3, func(string) error { return full }); !errors.Is(err, full) {
			t.Errorf("of a checkpoint that failed: %v, want %v", err, full)
		}
		if err := c.Done(t.Context(), Done{Obeyed: true}); err != nil {
			t.Error(err)
		}
		if ended := x.Ended(); ended[0] != (Done{Obeyed: true}) || x.Joined() != 1 {
			t.Errorf("ended %+v of %d that were there", ended, x.Joined())
		}
		x.Close()
	}
}

func TestAllRanksGetTheAnswerOfRank0(t *testing.T) {
	s := newServer(t, "")
	b := newBackend(t, 3)
	x := s.Open(task, nil, b)
	defer x.Close()
	first, second := dial(t, x, 0), dial(t, x, 1)
	answers := make(chan Answer, 3)
	go func() {
		for step := 1; step <= 3; step++ {
			a, err := second.Report(t.Context(), step, map[string]float64{"accuracy": -1})
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}
	}()
	for step := 1; step <= 3; step++ {
		want, err := first.Report(t.Context(), step, map[string]float64{"accuracy": float64(step)})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-answers; got != want {
			t.Errorf("step %d: rank 1 is answered %+v, rank 0 %+v", step, got, want)
		}
	}
	if got, want := strings.Join(b.told, " "), "1:1 2:2 3:3"; got != want {
		t.Errorf("the search was told %q, want rank 0's %q", got, want)
	}
	if _, err := second.Report(t.Context(), 2, nil); err != nil {
		t.Errorf("a step again: %v", err)
	}
	if err := second.Checkpoint(t.Context(), 3, func(string) error { t.Error("rank 1 writes a checkpoint"); return nil }); err != nil {
		t.Error(err)
	}
	if err := first.Done(t.Context(), Done{}); err != nil {
		t.Error(err)
	}
	if _, err := second.Report(t.Context(), 4, nil); err == nil || !strings.Contains(err.Error(), "rank 0 has ended without a report of step 4") {
		t.Errorf("a step that rank 0 never reports: %v", err)
	}
}

func TestAStepThatRank0PassedOverIsAnError(t *testing.T) {
	s := newServer(t, "")
	x := s.Open(task, nil, newBackend(t, 100))
	defer x.Close()
	first, second := dial(t, x, 0), dial(t, x, 1)
	if _, err := first.Report(t.Context(), 5, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Report(t.Context(), 4, nil); err == nil || !strings.Contains(err.Error(), "rank 0 has reported step 5, but not step 4") {
		t.Errorf("got %v", err)
	}
}

func TestWhoIsNotOfTheTrialIsRefused(t *testing.T) {
	s := newServer(t, "")
	x := s.Open(task, nil, newBackend(t, 1))
	dial(t, x, 1)
	for _, tc := range []struct{ variable, value, want string }{
		{TokenVariable, "guess", "unknown token"},
		{"PARAGON_RANK", "2", "trial 7 has 2 workers"},
		{"PARAGON_RANK", "1", "rank 1 of trial 7 has connected already"},
		{"PARAGON_RANK", "x", `PARAGON_RANK is "x", want a rank`},
		{AddressVariable, "unix:/nowhere/at/all", "reach the search at unix:/nowhere/at/all"},
		{AddressVariable, "http://x", "want unix:PATH or tcp:HOST:PORT"},
	} {
		of := environment(x)
		_, found, err := Dial(t.Context(), func(name string) (string, bool) {
			if name == tc.variable {
				return tc.value, true
			}
			return of(name)
		})
		if !found || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%s: got %v, want an error with %q", tc.variable, tc.value, err, tc.want)
		}
	}
	x.Close()
	if _, _, err := Dial(t.Context(), environment(x)); err == nil || !strings.Contains(err.Error(), "the trial has ended") {
		t.Errorf("of an attempt that has ended: %v", err)
	}
	if c, found, err := Dial(t.Context(), func(string) (string, bool) { return "", false }); c != nil || found || err != nil {
		t.Errorf("without a search: %v, %v, %v", c, found, err)
	}
}

func TestClosingASessionEndsWaits(t *testing.T) {
	s := newServer(t, "")
	x := s.Open(task, nil, newBackend(t, 1))
	second := dial(t, x, 1)
	waited := make(chan error)
	go func() {
		_, err := second.Report(t.Context(), 1, nil)
		waited <- err
	}()
	x.Close()
	select {
	case err := <-waited:
		if err == nil {
			t.Error("the report was answered")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the report still waits")
	}
	if _, err := second.Report(t.Context(), 2, nil); !errors.Is(err, ErrGone) {
		t.Errorf("after that: %v, want %v", err, ErrGone)
	}
}

func TestAClientsContextEndsItsWait(t *testing.T) {
	s := newServer(t, "")
	x := s.Open(task, nil, newBackend(t, 1))
	defer x.Close()
	second := dial(t, x, 1)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := second.Report(ctx, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// Strangers may send anything, or nothing: those who belong here do not notice.
func TestStrangersDoNotHoldTheSearchUp(t *testing.T) {
	s := newServer(t, "127.0.0.1")
	x := s.Open(task, nil, newBackend(t, 100))
	defer x.Close()
	first := dial(t, x, 0)
	address := strings.TrimPrefix(s.address, "tcp:")
	for i := range maxUnauthenticated + 20 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		switch i % 5 {
		case 0:
			_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		case 1:
			_ = framing.WriteJSON(c, message{Hello: &hello{Version: version}}, maxMessage)
		case 2:
			_, _ = c.Write([]byte(`{"hello":{"token":"","rank":0}}` + "\n"))
		case 3:
			_, _ = c.Write(append(framing.AppendHead(nil, maxMessage), "{"...))
		}
	}
	if a, err := first.Report(t.Context(), 1, nil); err != nil || a.Action != "continue" {
		t.Errorf("a report among strangers: %+v, %v", a, err)
	}
}

// Whoever holds all connections that the search has for processes that it does not know keeps no
// process of a trial out.
func TestAProcessRegistersBesideSilentConnections(t *testing.T) {
	s := newServer(t, "127.0.0.1")
	x := s.Open(task, nil, newBackend(t, 100))
	defer x.Close()
	for range maxUnauthenticated {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.address, "tcp:"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	dial(t, x, 0)
}

func TestMessagesOfTheWrongShapeAreErrors(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{`{}`, "has 0 kinds"},
		{`{"hello":{"token":"x","rank":0},"bye":{}}`, "has 2 kinds"},
		{`{"helo":{}}`, "unknown field"},
		{`{"bye":{}} {"bye":{}}`, "bytes after it"},
		{`{"report":{"step":1,"metrics":{"a":"many"}}}`, `metric "a" is "many", want a number`},
		{`{"report":{"step":1,"metrics":{"a":null}}}`, `metric "a" is null`},
		{`{"report":{"step":1,"metrics":{"":1}}}`, "want 1 to 256"},
		{`{"report":{"step":1e99}}`, "cannot unmarshal"},
		{`[`, "unexpected EOF"},
	} {
		if _, err := parse([]byte(tc.line)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.line, err, tc.want)
		}
	}
	var long strings.Builder
	long.WriteString(`{"report":{"step":1,"metrics":{`)
	for i := range maxMetrics + 1 {
		fmt.Fprintf(&long, `"m%d":1,`, i)
	}
	if _, err := parse([]byte(strings.TrimSuffix(long.String(), ",") + "}}}")); err == nil || !strings.Contains(err.Error(), "want at most 1024") {
		t.Errorf("too many metrics: %v", err)
	}
}

// A process that was built with another version is refused by name, in the form that it reads.
func TestAnotherVersionIsRefused(t *testing.T) {
	s := newServer(t, "127.0.0.1")
	x := s.Open(task, nil, newBackend(t, 9))
	defer x.Close()
	ask := func(first []byte) (answer []byte) {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.address, "tcp:"))
		must(t, err)
		defer c.Close()
		_, err = c.Write(first)
		must(t, err)
		answer, err = io.ReadAll(c)
		must(t, err)
		return answer
	}
	const want = `{"error":{"text":"the trial's program speaks version %d with its search, want 2: build it with the same version of Paragon as the search"}}`
	if got := ask([]byte(`{"hello":{"token":"` + x.token + `","rank":0}}` + "\n")); string(got) != fmt.Sprintf(want, 1)+"\n" {
		t.Errorf("a line: got %q, want a line with %s", got, fmt.Sprintf(want, 1))
	}
	var first bytes.Buffer
	must(t, (&wire{out: &first}).send(message{Hello: &hello{Version: 3, Token: x.token}}))
	got, err := framing.Read(bytes.NewReader(ask(first.Bytes())), nil, maxMessage)
	if string(got) != fmt.Sprintf(want, 3) || err != nil {
		t.Errorf("version 3: got %q, %v, want %s", got, err, fmt.Sprintf(want, 3))
	}
}

// A search of another version closes the connection, and the process says what may be wrong.
func TestASearchThatDoesNotAnswerIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Read(make([]byte, 1<<10))
			c.Close()
		}
	}()
	_, _, err = Dial(t.Context(), func(name string) (string, bool) {
		if name == AddressVariable {
			return "tcp:" + l.Addr().String(), true
		}
		return "", false
	})
	if err == nil || !strings.Contains(err.Error(), "is it of the same version of Paragon as this program?") {
		t.Errorf("got %v, want that its version may be another one", err)
	}
}

func FuzzMessage(f *testing.F) {
	for _, line := range []string{
		`{"hello":{"token":"x","rank":1}}`, `{"report":{"step":1,"metrics":{"a":0.5,"b":"NaN"}}}`, `{"answer":{"action":"stop","rule":"r"}}`,
		`{"task":{"study":"s","trial":1,"attempt":1,"params":{"lr":1.0},"seed":1,"workers":1,"marker":{"path":"/m","text":"x"}}}`, `{"done":{"error":"x","class":"user code"}}`,
		`{"hello":{"token":"x","rank":1,"copy":"save"}}`, `{"from":{"entry":1,"offset":2}}`, `{"piece":{"sum":4}}`, `{"whole":{}}`, `{"written":{"error":"","copied":true}}`, `{"error":{"text":"x","gone":true}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parse(line)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := (&wire{out: &b}).send(m); err != nil {
			t.Fatalf("%q is read, and cannot be sent: %v", line, err)
		}
		again, err := newWire(bytes.NewBuffer(b.Bytes())).receive()
		if err != nil {
			t.Fatalf("%q becomes %q, which cannot be read: %v", line, b.String(), err)
		}
		var c bytes.Buffer
		if _ = (&wire{out: &c}).send(again); c.String() != b.String() {
			t.Errorf("%q becomes %q and then %q", line, b.String(), c.String())
		}
	})
}
