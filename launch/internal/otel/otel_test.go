package otel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/otel/oteltest"
)

// logged is a logger, and what it was given.
func logged() (*slog.Logger, *strings.Builder) {
	var b strings.Builder
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

// A script is a scheduler that answers one round of questions after the other.
type script struct {
	rounds []answered
	at     int

	// asked is closed when all rounds were asked for.
	asked chan struct{}
}

func (s *script) Ask(ctx context.Context, q control.Request, into control.Answer) ([]byte, error) {
	if s.at == len(s.rounds) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r := &s.rounds[s.at]
	switch x := into.(type) {
	case *control.Events:
		if q.WaitMillis > 0 {
			*x = r.Events
			return nil, nil
		}
		if s.at++; s.at == len(s.rounds) {
			defer close(s.asked)
		}
	case *control.Telemetry:
		*x = r.telemetry
	case *control.Status:
		*x = r.status
	}
	return nil, nil
}

// find is the one span of a name whose attributes are so.
func find(t *testing.T, spans []oteltest.Span, name string, attrs ...any) oteltest.Span {
	t.Helper()
	var found []oteltest.Span
	for _, s := range spans {
		fits := s.Name == name
		for i := 0; i < len(attrs); i += 2 {
			fits = fits && s.Attributes[attrs[i].(string)] == attrs[i+1]
		}
		if fits {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are %s with %v, want 1, among %+v", len(found), name, attrs, spans)
	}
	return found[0]
}

// A job that fails and is started again, whose second attempt has a change and a checkpoint, on a
// machine whose clock is an hour before the scheduler's.
func TestSpansOfAJob(t *testing.T) {
	c := oteltest.New(t)
	log, lines := logged()
	endpoint, err := Endpoint(c.URL, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	tr, err := New(Config{Endpoint: endpoint, Program: "train", Workers: 2, Servers: 1, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	second := start
	tr.now = func() time.Time { return second }
	pass := func(d time.Duration) { second = second.Add(d) }

	tr.Begun("first")
	tr.ProcessStarted(joblog.Node{Role: "scheduler", Rank: 0, Host: "a", Process: 1}, 101)
	pass(time.Second)
	tr.ProcessJoined(1)
	tr.ProcessStarted(joblog.Node{Role: "worker", Rank: 0, Host: "b", Process: 2}, 102)
	pass(time.Second)
	tr.ProcessEnded(2, process.Exit{Code: 3})
	tr.Over(&control.Result{ExitCode: 3, Failure: &control.Failure{Code: control.ProcessFailed, Role: "worker", Host: "b", Cause: control.Cause{Kind: control.CauseExit, Exit: 3}}})
	tr.Again()
	pass(time.Second)
	tr.Begun("second")
	begun := second
	for i, host := range []string{"a", "b"} {
		tr.ProcessStarted(joblog.Node{Role: "worker", Rank: i, Host: host, Process: uint32(3 + i)}, 103+i)
	}
	pass(time.Second)
	tr.ProcessRegistered(3)
	pass(time.Second)
	tr.Complete()
	running := second
	tr.ProcessStarted(joblog.Node{Role: "worker", Rank: -1, Host: "c", Process: 5}, 105)

	// Times of the scheduler are an hour ahead; that worker's are ten seconds behind the
	// scheduler's.
	ahead := func(after time.Duration) time.Time { return running.Add(time.Hour + after).Truncate(time.Millisecond) }
	metrics := func(checkpoints uint64, at, took float64) control.Telemetry {
		x := control.Telemetry{Phase: control.Running, NowMillis: ahead(0).UnixMilli(), Checkpoints: checkpoints,
			Nodes: []control.NodeTelemetry{{Values: control.Numbers{control.Number(at), control.Number(took), 10}}}}
		for _, name := range metricNames {
			x.Columns = append(x.Columns, control.Value{Metric: name})
		}
		return x
	}
	saved := float64(ahead(3*time.Second).Add(-10*time.Second).UnixNano()) / 1e9
	s := &script{asked: make(chan struct{}), rounds: []answered{
		{status: control.Status{Phase: control.Running, Generation: 1, Workers: 2}, telemetry: metrics(0, 0, 0)},
		{Events: control.Events{Last: 1, Events: []control.Event{{Number: 1, Action: control.AddQueued, Host: "c", TimeNS: ahead(time.Second).UnixNano()}}},
			status:    control.Status{Phase: control.Running, Generation: 1, Workers: 2, Change: &control.Change{Number: 7, Causes: []string{"worker 2 joins"}, Seconds: 0.5}},
			telemetry: metrics(0, 0, 0)},
		{Events: control.Events{Last: 2, Events: []control.Event{{Number: 2, Action: control.Added, Role: control.Worker, Process: 5, Host: "c", TimeNS: ahead(4 * time.Second).UnixNano()}}},
			status:    control.Status{Phase: control.Running, Generation: 2, Workers: 3},
			telemetry: metrics(1, saved, 2)},
		{status: control.Status{Phase: control.Running, Generation: 2, Workers: 3}, telemetry: metrics(1, saved+0.002, 2)},
	}}
	stop := tr.Follow(s)
	<-s.asked
	stop()
	pass(10 * time.Second)
	// The first two were told before; of the last moment only the launcher knows.
	tr.Over(&control.Result{Changes: []control.Event{{Number: 1, Action: control.AddQueued}, {Number: 2, Action: control.Added, Process: 5},
		{Number: 3, Action: control.Lost, Role: control.Worker, TimeNS: ahead(5 * time.Second).UnixNano()}, {Number: 4, Action: control.Ranks, TimeNS: ahead(7 * time.Second).UnixNano()}}})
	tr.Close(&control.Result{})

	spans := c.Spans()
	job := find(t, spans, "job", "paragon.job.workers", int64(2), "paragon.job.servers", int64(1), "process.executable.name", "train", "process.exit.code", int64(0), "paragon.job.restarts", int64(1))
	if job.Failed || job.Resource["service.name"] != "paragon" || job.Resource["host.name"] == "" || job.Resource["telemetry.sdk.language"] != "go" {
		t.Errorf("the job's span: %+v", job)
	}
	first := find(t, spans, "attempt", "paragon.job.id", "first", "error.type", string(control.ProcessFailed), "process.exit.code", int64(3))
	other := find(t, spans, "attempt", "paragon.job.id", "second", "process.exit.code", int64(0))
	restart := find(t, spans, "restart", "paragon.job.attempt", int64(2))
	failed := find(t, spans, "join worker", "paragon.node.process", int64(2), "host.name", "b", "process.pid", int64(102), "process.exit.code", int64(3))
	if !first.Failed || other.Failed || !failed.Failed || !strings.Contains(first.Message, "exit 3") {
		t.Errorf("failed: attempt 1 %t (%s), attempt 2 %t, join %t; want only the first and the join", first.Failed, first.Message, other.Failed, failed.Failed)
	}
	joined := find(t, spans, "join worker", "paragon.node.process", int64(3))
	added := find(t, spans, "join worker", "paragon.node.process", int64(5))
	change := find(t, spans, "change", "paragon.membership.generation", int64(2), "paragon.job.workers", int64(3))
	checkpoint := find(t, spans, "checkpoint", "paragon.checkpoint.count", int64(1))
	last := find(t, slices.DeleteFunc(slices.Clone(spans), func(s oteltest.Span) bool { return s.ID == change.ID }), "change")
	if !slices.Equal(change.Attributes["paragon.membership.causes"].([]string), []string{"worker 2 joins"}) {
		t.Errorf("the change has the causes %v", change.Attributes)
	}
	for _, x := range []struct {
		what       string
		span       oteltest.Span
		parent     string
		begin, end time.Time
	}{
		{"attempt 1", first, job.ID, start, start.Add(2 * time.Second)},
		{"join of the scheduler", find(t, spans, "join scheduler", "paragon.node.process", int64(1)), first.ID, start, start.Add(time.Second)},
		{"join of worker 0", failed, first.ID, start.Add(time.Second), start.Add(2 * time.Second)},
		{"restart", restart, job.ID, start.Add(2 * time.Second), begun},
		{"attempt 2", other, job.ID, begun, second},
		{"join in attempt 2", joined, other.ID, begun, running},
		{"join of an added worker", added, other.ID, running, running.Add(4 * time.Second)},
		{"change", change, other.ID, running.Add(-500 * time.Millisecond), running.Add(4 * time.Second)},
		{"change at the end", last, other.ID, running.Add(5 * time.Second), running.Add(7 * time.Second)},
		{"checkpoint", checkpoint, other.ID, running.Add(time.Second), running.Add(3 * time.Second)},
	} {
		near := func(a, b time.Time) bool { return a.Sub(b).Abs() < 2*time.Millisecond }
		if x.span.Parent != x.parent || x.span.Trace != job.Trace || !near(x.span.Begin, x.begin) || !near(x.span.End, x.end) {
			t.Errorf("%s: from %s to %s after the start, below the right span: %t; want %s to %s", x.what, x.span.Begin.Sub(start), x.span.End.Sub(start), x.span.Parent == x.parent, x.begin.Sub(start), x.end.Sub(start))
		}
	}
	var names []string
	for _, e := range append(joined.Events, other.Events...) {
		names = append(names, e.Name)
	}
	if want := []string{"registered", "running", control.AddQueued, control.Added, control.Lost, control.Ranks}; !slices.Equal(names, want) {
		t.Errorf("events %q, want %q", names, want)
	}
	if len(spans) != 12 || lines.Len() > 0 {
		t.Errorf("%d spans, want 12; the log says %q, want nothing", len(spans), lines)
	}
}

// A change that was committed before the scheduler was first asked has a span: its event tells of
// it.
func TestAChangeBeforeTheFirstAnswerHasASpan(t *testing.T) {
	for _, changed := range []bool{false, true} {
		c := oteltest.New(t)
		log, _ := logged()
		endpoint, err := Endpoint(c.URL, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		tr, err := New(Config{Endpoint: endpoint, Program: "train", Workers: 2, Servers: 1, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		tr.Begun("job")
		tr.Complete()
		first := answered{status: control.Status{Phase: control.Running, Generation: 3, Workers: 2}}
		if changed {
			first.Events = control.Events{Last: 1, Events: []control.Event{{Number: 1, Action: control.Added, Role: control.Worker, Process: 5, Host: "c", TimeNS: time.Now().UnixNano()}}}
		}
		s := &script{asked: make(chan struct{}), rounds: []answered{first}}
		stop := tr.Follow(s)
		<-s.asked
		stop()
		tr.Over(&control.Result{})
		tr.Close(&control.Result{})
		changes := 0
		for _, span := range c.Spans() {
			if span.Name == "change" {
				changes++
			}
		}
		if want := map[bool]int{true: 1}[changed]; changes != want {
			t.Errorf("the first answer has the event of a change: %t: got %d spans of changes, want %d", changed, changes, want)
		}
	}
}

// A collector that is not there, refuses, or does not answer is told of once, and delays nothing.
func TestCollectorThatTakesNothing(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) }))
	defer refuses.Close()
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-release }))
	defer hangs.Close()
	defer close(release)
	for _, tc := range []struct{ name, url, want string }{
		{"gone", gone.URL, "connection refused"},
		{"refuses", refuses.URL, "403 Forbidden"},
		{"hangs", hangs.URL, "no answer within"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log, lines := logged()
			tr, err := New(Config{Endpoint: tc.url + tracesPath, Program: "train", Workers: 1, Servers: 1, Logger: log})
			if err != nil {
				t.Fatal(err)
			}
			tr.flush = 100 * time.Millisecond
			tr.Begun("job")
			begin := time.Now()
			for i := range uint32(3 * queueSize) {
				tr.ProcessStarted(joblog.Node{Role: "worker", Process: i + 1}, 1)
				tr.ProcessEnded(i+1, process.Exit{})
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("%d spans took %s", 3*queueSize, took)
			}
			tr.Over(&control.Result{})
			begin = time.Now()
			tr.Close(&control.Result{})
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("Close took %s", took)
			}
			if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, tc.want) {
				t.Errorf("the log says %q, want one line with %q", text, tc.want)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	type env = map[string]string
	for _, tc := range []struct {
		flag      string
		env       env
		want, err string
	}{
		{"", env{}, "", ""},
		{"http://a:4318", env{}, "http://a:4318/v1/traces", ""},
		{"https://a:4318/base/", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:1"}, "https://a:4318/base/v1/traces", ""},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:1"}, "http://b:1/v1/traces", ""},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:1/x"}, "http://c:1/x", ""},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:1", "OTEL_TRACES_EXPORTER": "none"}, "", ""},
		{"http://a:1", env{"OTEL_SDK_DISABLED": "true"}, "", ""},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "", "the protocol is grpc"},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "b:1"}, "", `OTEL_EXPORTER_OTLP_ENDPOINT: address "b:1": want http://host:port`},
		{"ftp://a", env{}, "", `--otel-endpoint: address "ftp://a": want http://host:port`},
		{"http://me:word@a", env{}, "", `address "http://me:xxxxx@a" has a user name`},
		{"ftp://me:word@a", env{}, "", `address "with a user name": want`},
		{"http://a?token=word", env{}, "", "address of host a has a query"},
	} {
		got, err := Endpoint(tc.flag, func(name string) string { return tc.env[name] })
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "word")) {
			t.Errorf("Endpoint(%q) with %v: got %q, %v; want %q, %q", tc.flag, tc.env, got, err, tc.want, tc.err)
		}
	}
}

// A scheduler that cannot be asked is asked again; what it says does not have to be right.
func TestAnswersThatCannotBeUsed(t *testing.T) {
	c := oteltest.New(t)
	log, _ := logged()
	tr, err := New(Config{Endpoint: c.URL + tracesPath, Program: "train", Workers: 1, Servers: 1, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	tr.Begun("job")
	n := 0
	ended := make(chan struct{})
	stop := tr.Follow(asker(func(q control.Request, into control.Answer) error {
		if n++; n == 2 {
			close(ended)
		}
		return errors.New("no scheduler")
	}))
	<-ended
	stop()
	for _, at := range []float64{1e300, -1e300} {
		x := control.Telemetry{Checkpoints: uint64(n), Nodes: []control.NodeTelemetry{{Values: control.Numbers{control.Number(at), 1e300}}}}
		for _, name := range metricNames[:2] {
			x.Columns = append(x.Columns, control.Value{Metric: name})
		}
		n++
		tr.attempt.members.take(tr, tr.attempt, &answered{telemetry: x, at: tr.now(), asked: tr.now()})
	}
	tr.Over(&control.Result{})
	tr.Close(&control.Result{})
	if got := fmt.Sprint(len(c.Spans())); got != "2" {
		t.Errorf("%s spans, want job and attempt: %+v", got, c.Spans())
	}
}

type asker func(q control.Request, into control.Answer) error

func (f asker) Ask(_ context.Context, q control.Request, into control.Answer) ([]byte, error) {
	return nil, f(q, into)
}
