package otel

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// Attributes of the job's spans, besides those of OpenTelemetry's semantic conventions.
const (
	jobKey        = attribute.Key("paragon.job.id")
	workersKey    = attribute.Key("paragon.job.workers")
	serversKey    = attribute.Key("paragon.job.servers")
	attemptKey    = attribute.Key("paragon.job.attempt") // from 1
	restartsKey   = attribute.Key("paragon.job.restarts")
	generationKey = attribute.Key("paragon.membership.generation")
	causesKey     = attribute.Key("paragon.membership.causes")
	roleKey       = attribute.Key("paragon.node.role")
	rankKey       = attribute.Key("paragon.node.rank")
	processKey    = attribute.Key("paragon.node.process") // the number that launch gave it
	reasonKey     = attribute.Key("paragon.reason")
	countKey      = attribute.Key("paragon.checkpoint.count") // so far
)

// Config says where spans go, and what the job is. All fields must be set.
type Config struct {
	// Endpoint is as Endpoint returns it.
	Endpoint string

	// Program is what workers run, without its arguments, which may hold secrets.
	Program string

	Workers, Servers int
	Logger           *slog.Logger
}

// A Tracer makes the spans of one job. It is a job.Observer. None of its methods waits for the
// collector, but Close.
type Tracer struct {
	provider *sdk.TracerProvider
	exporter *exporter
	tracer   trace.Tracer
	now      func() time.Time

	// flush is how long Close waits for the collector.
	flush time.Duration

	mu sync.Mutex

	// job carries the job's span.
	job context.Context

	// attempt is nil if none runs.
	attempt *attempt

	// number counts the attempts so far.
	number int

	// restart is nil if the job is not being started again.
	restart trace.Span
}

// An attempt is one start of the job, until it ends.
type attempt struct {
	// Context has the span of the attempt, the parent of all others.
	context.Context

	span trace.Span

	// joins are the spans of processes that have not joined yet.
	joins map[uint32]trace.Span

	// ended has the spans of processes that have ended, which may still get an attribute.
	ended map[uint32]ended

	members membership
}

// New begins the job's span.
func New(cfg Config) (*Tracer, error) {
	host, _ := os.Hostname()
	provider, exporter, err := newProvider(cfg.Endpoint, cfg.Logger, []attribute.KeyValue{
		semconv.ServiceName("paragon"), semconv.HostName(host), semconv.ProcessPID(os.Getpid()),
	})
	if err != nil {
		return nil, fmt.Errorf("launch: OpenTelemetry: %w", err)
	}
	t := &Tracer{provider: provider, exporter: exporter, tracer: provider.Tracer("github.com/paragon-train/paragon/launch"), now: time.Now, flush: flushTime}
	t.job, _ = t.tracer.Start(context.Background(), "job", trace.WithTimestamp(t.now()), trace.WithAttributes(
		semconv.ProcessExecutableName(cfg.Program), workersKey.Int(cfg.Workers), serversKey.Int(cfg.Servers)))
	return t, nil
}

// TraceID is how people find the job's trace.
func (t *Tracer) TraceID() string { return trace.SpanContextFromContext(t.job).TraceID().String() }

// Begun says that the job is being started, for the first time or again.
func (t *Tracer) Begun(job string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.now()
	if t.number++; t.restart != nil {
		t.restart.End(trace.WithTimestamp(at))
		t.restart = nil
	}

	// The job's span tells of the newest attempt.
	trace.SpanFromContext(t.job).SetAttributes(jobKey.String(job))
	a := &attempt{joins: make(map[uint32]trace.Span), ended: make(map[uint32]ended)}
	a.Context, a.span = t.tracer.Start(t.job, "attempt", trace.WithTimestamp(at), trace.WithAttributes(jobKey.String(job), attemptKey.Int(t.number)))
	t.attempt = a
}

// Over says how the attempt ended.
func (t *Tracer) Over(r *control.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, at := t.attempt, t.now()
	if a == nil {
		return
	}
	a.members.settle(t, a, at, r.Changes)
	a.unjoined(at.Add(1))

	// The processes were never seen to join.
	for _, s := range a.joins {
		s.End(trace.WithTimestamp(at))
	}
	end(a.span, at, r)
	t.attempt = nil
}

// Again says that the job will be started again.
func (t *Tracer) Again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, t.restart = t.tracer.Start(t.job, "restart", trace.WithTimestamp(t.now()), trace.WithAttributes(attemptKey.Int(t.number+1)))
}

// ProcessStarted says that a process runs.
func (t *Tracer) ProcessStarted(n joblog.Node, pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attempt
	if a == nil {
		return
	}
	_, s := t.tracer.Start(a, "join "+n.Role, trace.WithTimestamp(t.now()), trace.WithAttributes(
		roleKey.String(n.Role), rankKey.Int(n.Rank), processKey.Int(int(n.Process)), semconv.HostName(n.Host), semconv.ProcessPID(pid)))
	a.joins[n.Process] = s
}

// ProcessRegistered says that the scheduler has heard from a process, while the job forms.
func (t *Tracer) ProcessRegistered(number uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.attempt; a != nil && a.joins[number] != nil {
		a.joins[number].AddEvent("registered", trace.WithTimestamp(t.now()))
	}
}

// ProcessJoined says that the process is a member of the job.
func (t *Tracer) ProcessJoined(number uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempt.joined(number, t.now())
}

// Complete says that all processes of the first membership have joined.
func (t *Tracer) Complete() {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, at := t.attempt, t.now()
	if a == nil {
		return
	}
	a.span.AddEvent("running", trace.WithTimestamp(at))
	for number := range a.joins {
		a.joined(number, at)
	}
}

// ProcessEnded says how a process ended.
func (t *Tracer) ProcessEnded(number uint32, exit process.Exit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attempt
	if a != nil && a.joins[number] != nil {
		a.ended[number] = ended{exit, t.now()}
	}
}

// An ended process may have joined before: the scheduler's answers come later.
type ended struct {
	exit process.Exit
	at   time.Time
}

// unjoined ends the spans of processes that ended before a time, and of which the scheduler has not
// said that they joined.
func (a *attempt) unjoined(before time.Time) {
	for number, e := range a.ended {
		if s := a.joins[number]; s != nil && e.at.Before(before) {
			s.SetAttributes(semconv.ProcessExitCode(e.exit.Status()))
			s.SetStatus(codes.Error, "it ended before it had joined: "+e.exit.String())
			a.joined(number, e.at)
		}
	}
}

// joined ends the span of a process that joins. The attempt may be nil.
func (a *attempt) joined(number uint32, at time.Time) {
	if a != nil && a.joins[number] != nil {
		a.joins[number].End(trace.WithTimestamp(at))
		delete(a.joins, number)
		delete(a.ended, number)
	}
}

// end ends the span of a job or of an attempt.
func end(s trace.Span, at time.Time, r *control.Result) {
	s.SetAttributes(semconv.ProcessExitCode(r.ExitCode))
	switch {
	case r.ExitCode == 0:
	case r.Failure == nil:
		s.SetAttributes(semconv.ErrorTypeOther)
		s.SetStatus(codes.Error, fmt.Sprintf("exit code %d", r.ExitCode))
	default:
		s.SetAttributes(semconv.ErrorTypeKey.String(string(r.Failure.Code)))
		s.SetStatus(codes.Error, r.Failure.String())
	}
	s.End(trace.WithTimestamp(at))
}

// Close ends the job's span, and gives the collector a moment to take what is left.
func (t *Tracer) Close(r *control.Result) {
	t.mu.Lock()
	if t.restart != nil {
		t.restart.End(trace.WithTimestamp(t.now()))
		t.restart = nil
	}
	s := trace.SpanFromContext(t.job)
	s.SetAttributes(restartsKey.Int(max(t.number-1, 0)))
	end(s, t.now(), r)
	t.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(context.Background(), t.flush, fmt.Errorf("no answer within %s", t.flush))
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.exporter.failed(cmp.Or(context.Cause(ctx), err))
	}
}
