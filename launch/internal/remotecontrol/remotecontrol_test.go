package remotecontrol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/framing"
	"github.com/paragon-train/paragon/internal/member/record"
)

// connect makes a Client of a Server. The connections end with the test, or when Serve returns.
func connect(t *testing.T, s *Server) *Client {
	return &Client{Dial: func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			s.Serve(t.Context(), theirs)
		}()
		return ours, nil
	}}
}

// carry asks a question as launch ctl does.
func carry(ctx context.Context, c *Client, job string, q control.Request, into control.Answer) error {
	_, err := control.Ask(ctx, func(ctx context.Context, request []byte) ([]byte, error) { return c.Carry(ctx, job, request) }, q, into)
	return err
}

func newJob(id string, scheduler func(ctx context.Context, q control.Request) (string, error)) Job {
	return Job{
		Record: record.Record{Job: id, Scheduler: "127.0.0.1:7", PID: 5, Dir: "/job", Command: []string{"./train", "<&>"}, Host: "head", Memory: "/proc/5/fd/9", Credentials: []string{"PARAGON_SECRET=hidden"}},
		Carry: func(ctx context.Context, request []byte) ([]byte, error) {
			q, err := control.DecodeRequest(request)
			if err != nil {
				return nil, err
			}
			text, err := scheduler(ctx, q)
			return []byte(text), err
		},
		Link: func() string { return "http://127.0.0.1:1/?token=x" },
	}
}

func TestQuestionsAreAnsweredByTheScheduler(t *testing.T) {
	var s Server
	ended := s.Started(newJob("3f2a", func(_ context.Context, q control.Request) (string, error) {
		switch q.Op {
		case control.OpScale:
			return fmt.Sprintf(`{"scale":%d}`, q.Workers), nil
		case control.OpAdd:
			return `{"error":"host d1 is in the job already"}`, nil
		}
		return "", fmt.Errorf("%w: the scheduler does not want %s", control.ErrRefused, q.Op)
	}))
	c := connect(t, &s)
	r, err := c.Record(t.Context(), "3f")
	if err != nil || r.Job != "3f2a" || r.Dir != "/job" || r.Host != "head" || r.Command[1] != "<&>" || r.Credentials != nil || r.Memory != "" {
		t.Errorf("Record: %+v, %v, want the job's without secrets", r, err)
	}
	var done control.Done
	if err := carry(t.Context(), c, "3f2a", control.Request{Op: control.OpScale, Workers: 3}, &done); err != nil || done.Scale != 3 {
		t.Errorf("scale: %+v, %v, want 3", done, err)
	}
	err = carry(t.Context(), c, "3f2a", control.Request{Op: control.OpAdd, Host: "d1"}, &done)
	if !errors.Is(err, control.ErrRefused) || err.Error() != "refused: host d1 is in the job already" {
		t.Errorf("add: %v", err)
	}
	err = carry(t.Context(), c, "3f2a", control.Request{Op: control.OpWhy}, &control.Why{})
	if !errors.Is(err, control.ErrRefused) || err.Error() != "refused: the scheduler does not want why" {
		t.Errorf("why: %v", err)
	}
	if link, err := c.Link(t.Context(), "3f2a"); err != nil || link != "http://127.0.0.1:1/?token=x" {
		t.Errorf("Link: %q, %v", link, err)
	}
	if _, err := c.Record(t.Context(), "9"); !errors.Is(err, ErrReply) || err.Error() != `the launcher says: that launcher runs job 3f2a, and none whose ID begins with "9"` {
		t.Errorf("Record of another job: %v", err)
	}
	ended()
	if _, err := c.Record(t.Context(), ""); !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), "no job runs there yet") {
		t.Errorf("Record without a job: %v", err)
	}
	if err := carry(t.Context(), c, "3f2a", control.Request{Op: control.OpStatus}, &control.Status{}); !errors.Is(err, ErrReply) || errors.Is(err, control.ErrRefused) {
		t.Errorf("status without a job: %v", err)
	}
}

// What is the launcher's own to say cannot be said from elsewhere.
func TestOperationsOfTheLauncherAreRefused(t *testing.T) {
	var s Server
	s.Started(newJob("j", func(_ context.Context, q control.Request) (string, error) {
		t.Errorf("%s was carried", q.Op)
		return "{}", nil
	}))
	c := connect(t, &s)
	for _, q := range []control.Request{
		{Op: control.OpStop}, {Op: control.OpWanted}, {Op: control.OpReport, Observed: &control.Observed{Number: 1}},
	} {
		if err := carry(t.Context(), c, "j", q, &control.Done{}); !errors.Is(err, control.ErrRefused) {
			t.Errorf("%s: %v, want a refusal", q.Op, err)
		}
	}
	for _, request := range []string{"", "{", `{"op":"nothing"}`, `{"op":"status"}` + strings.Repeat(" ", control.MaxRequest)} {
		if _, err := c.Carry(t.Context(), "j", []byte(request)); err == nil {
			t.Errorf("request %.20q: no error", request)
		}
	}
}

// A request that waits is given up when launch ctl is gone, when the launcher ends, and after its
// time.
func TestRequestsThatWaitEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Server
		causes := make(chan error, 1)
		s.Started(newJob("j", func(ctx context.Context, _ control.Request) (string, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", context.Cause(ctx)
		}))
		c := connect(t, &s)
		q := control.Request{Op: control.OpEvents, WaitMillis: 10_000}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		begin := time.Now()
		if err := carry(ctx, c, "j", q, &control.Events{}); err == nil || err.Error() != "enough" {
			t.Errorf("got %v, want that it is enough", err)
		}
		<-causes
		if took := time.Since(begin); took != time.Second {
			t.Errorf("the request ended after %s, want 1 s", took)
		}
		begin = time.Now()
		if err := carry(t.Context(), c, "j", q, &control.Events{}); !errors.Is(err, ErrReply) || !strings.HasSuffix(err.Error(), "no answer within 25s") {
			t.Errorf("got %v, want no answer within 25s", err)
		}
		<-causes
		if took := time.Since(begin); took != 25*time.Second {
			t.Errorf("the request ended after %s, want 25 s", took)
		}
	})
}

// Whoever holds connections with the secret cannot take more than so many, and each only for a
// while.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Server
		s.Started(newJob("j", nil))
		c := connect(t, &s)
		for range maxConnections {
			if _, err := c.Dial(t.Context()); err != nil { // and says nothing
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if _, err := c.Record(t.Context(), ""); !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), "64 other requests; try again") {
			t.Errorf("one more question: %v", err)
		}
		time.Sleep(2 * questionTime)
		synctest.Wait()
		if _, err := c.Record(t.Context(), ""); err != nil {
			t.Errorf("after their time: %v", err)
		}
	})
}

// Ends of different versions say which of them is older.
func TestAnotherVersionIsNamed(t *testing.T) {
	var s Server
	s.Started(newJob("j", nil))
	for theirs, want := range map[int]string{0: "launch ctl is older", 9: "the launcher is older"} {
		c := &bytesConn{in: bytes.NewReader(message(question{Version: theirs}))}
		s.Serve(t.Context(), c)
		var r reply
		if err := framing.ReadJSON(&c.out, &r, maxReply); err != nil || !strings.Contains(r.Error, want) || r.Job.Job != "" {
			t.Errorf("a question of version %d: got %+v, %v, want that %s", theirs, r, err, want)
		}
	}
	for theirs, want := range map[int]string{0: "the launcher is older", 9: "launch ctl is older"} {
		c := Client{Dial: func(context.Context) (net.Conn, error) {
			ours, other := net.Pipe()
			go func() {
				defer other.Close()
				framing.Read(other, nil, maxQuestion)
				other.Write(message(reply{Version: theirs}))
			}()
			return ours, nil
		}}
		if _, err := c.Record(t.Context(), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a reply of version %d: got %v, want that %s", theirs, err, want)
		}
	}
}

// A bytesConn is a connection whose other end has sent some bytes and closed its side.
type bytesConn struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (c *bytesConn) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *bytesConn) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (*bytesConn) SetReadDeadline(time.Time) error    { return nil }
func (*bytesConn) SetWriteDeadline(t time.Time) error { return nil }

// A zeros is an endless message of zeros.
type zeros struct{ read int }

func (z *zeros) Read(b []byte) (int, error) {
	clear(b)
	z.read += len(b)
	return len(b), nil
}

func TestLongMessagesAreNotRead(t *testing.T) {
	var s Server
	var rest zeros
	c := &bytesConn{in: io.MultiReader(bytes.NewReader([]byte{0, 0, 0, 64}), &rest)} // 1 GiB
	s.Serve(t.Context(), c)
	if out := c.out.String(); rest.read > maxQuestion || !strings.Contains(out, "got a message of 1073741824 bytes, want at most 131072") {
		t.Errorf("read %d bytes, and replied %q", rest.read, out)
	}
}

func message(v any) []byte {
	b, _ := json.Marshal(v)
	return append(framing.AppendHead(nil, len(b)), b...)
}

// Whatever comes, there is one reply, and nothing but allowed requests is carried.
func FuzzServe(f *testing.F) {
	f.Add(message(question{Version: 1, Job: "j"}))
	f.Add(message(question{Version: 1, Link: true, Request: []byte(`{"op":"status"}`)}))
	f.Add(message(question{Version: 1, Request: []byte(`{"op":"stop"}`)}))
	f.Add(message(question{Version: 2}))
	f.Add([]byte{255, 255, 255, 255, '{'})
	f.Add([]byte{2, 0, 0, 0, '{'})
	f.Fuzz(func(t *testing.T, in []byte) {
		var s Server
		s.Started(newJob("j", func(_ context.Context, q control.Request) (string, error) {
			if q.Op == control.OpStop {
				t.Errorf("%q: %s was carried", in, q.Op)
			}
			return "{}", nil
		}))
		c := &bytesConn{in: bytes.NewReader(in)}
		s.Serve(t.Context(), c)
		var r reply
		if err := framing.ReadJSON(&c.out, &r, maxReply); err != nil || r.Version != version {
			t.Fatalf("%q: reply %+v, %v", in, r, err)
		}
		if r.Answer {
			if b, err := framing.Read(&c.out, nil, control.MaxAnswer); err != nil || string(b) != "{}" {
				t.Fatalf("%q: answer %q, %v", in, b, err)
			}
		}
		if c.out.Len() > 0 {
			t.Fatalf("%q: %d bytes more", in, c.out.Len())
		}
	})
}

// What a launcher sends is not trusted in its form either.
func FuzzReply(f *testing.F) {
	f.Add(message(reply{Version: 1, Job: record.Record{Job: "j"}}))
	f.Add(append(message(reply{Version: 1, Answer: true}), message("x")...))
	f.Add(message(reply{Version: 1, Error: "x", Refused: true}))
	f.Add([]byte{255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := Client{Dial: func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				framing.Read(theirs, nil, maxQuestion)
				theirs.Write(in)
			}()
			return ours, nil
		}}
		if b, err := c.Carry(t.Context(), "j", []byte(`{}`)); err != nil && b != nil {
			t.Fatalf("%q: %q and %v", in, b, err)
		}
	})
}
