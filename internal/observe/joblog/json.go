package joblog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// An Identity says who writes a line.
type Identity struct {
	// Job is the job's ID; empty: there is no job, or none yet.
	Job string

	// Role is worker, server, scheduler, prepare, launcher or tune.
	Role string

	// Rank is -1 if there is none yet.
	Rank int

	// Process is the number that launch gave the process, never used again in the job; 0: it was
	// started by hand, or is launch.
	Process uint32

	// PID is the process's number on its host; 0: it is not known.
	PID int

	// Host is as the job's nodes call it.
	Host string
}

// FromEnv is the Identity of this process: that of a node as the environment of a job describes it,
// with the rank that it wants. A process without a job is worker 0 of none.
func FromEnv(getenv func(string) string) Identity {
	id := Identity{Job: getenv("PARAGON_JOB"), Role: getenv("DMLC_ROLE"), Rank: -1, PID: os.Getpid(), Host: getenv("DMLC_NODE_HOST")}
	if id.Role == "" {
		id.Role, id.Rank = "worker", 0
	}
	if n, err := strconv.Atoi(getenv("PARAGON_RANK")); err == nil && n >= 0 {
		id.Rank = n
	}
	if id.Role == "scheduler" {
		id.Rank = 0
	}
	if n, err := strconv.ParseUint(getenv("PARAGON_PROCESS"), 10, 32); err == nil {
		id.Process = uint32(n)
	}
	if id.Host == "" {
		id.Host, _ = os.Hostname()
	}
	return id
}

// Launcher is the Identity of launch and its parts.
func Launcher(role string) Identity {
	host, _ := os.Hostname()
	return Identity{Role: role, PID: os.Getpid(), Host: host}
}

func (id *Identity) attrs() []slog.Attr {
	return []slog.Attr{slog.String("job", id.Job), slog.String("role", id.Role), slog.Int("rank", id.Rank), slog.Int64("process", int64(id.Process)),
		slog.Int("pid", id.PID), slog.String("host", id.Host)}
}

// reserved are the names of what every line has.
var reserved = []string{slog.TimeKey, slog.LevelKey, slog.MessageKey, "event", "job", "role", "rank", "process", "pid", "host"}

// nodePrefix stands before an attribute with a reserved name.
const nodePrefix = "node_"

// New makes a logger that writes JSON lines of at least level to w, each with one Write.
func New(w io.Writer, level slog.Leveler, who Identity) *slog.Logger {
	out := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: seconds})
	return slog.New(&handler{out: out, who: &writer{id: who}, groups: []group{{}}})
}

// seconds writes durations as numbers of seconds, and numbers that have names, such as a node's
// role, and those that JSON does not have as text.
func seconds(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	case slog.KindFloat64:
		if f := a.Value.Float64(); math.IsNaN(f) || math.IsInf(f, 0) {
			a.Value = slog.StringValue(strconv.FormatFloat(f, 'g', -1, 64))
		}
	case slog.KindAny:
		if named, ok := a.Value.Any().(fmt.Stringer); ok {
			if v := reflect.ValueOf(named); v.CanInt() || v.CanUint() {
				a.Value = slog.StringValue(named.String())
			}
		}
	}
	return a
}

// A writer is the Identity that the loggers of one process share.
type writer struct {
	// mu guards id.
	mu sync.Mutex

	id Identity
}

// A handler writes JSON lines.
type handler struct {
	// out has no attributes and groups of its own.
	out slog.Handler

	who *writer

	// groups begin with the line itself.
	groups []group
}

// A group has attributes that were given with Logger.With.
type group struct {
	name  string
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.out.Enabled(ctx, l) }

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.groups = slices.Clone(h.groups)
	last := &c.groups[len(c.groups)-1]
	last.attrs = append(slices.Clip(last.attrs), attrs...)
	return &c
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.groups = append(slices.Clip(h.groups), group{name: name})
	return &c
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.who.mu.Lock()
	id := h.who.id
	h.who.mu.Unlock()
	var events, attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		if IsEvent(a) {
			events = append(events, a.Value.Resolve().Group()...)
		} else {
			attrs = append(attrs, a)
		}
		return true
	})
	for i := len(h.groups) - 1; i > 0; i-- {
		g := h.groups[i]
		attrs = []slog.Attr{{Key: g.name, Value: slog.GroupValue(slices.Concat(g.attrs, attrs)...)}}
	}
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	line.AddAttrs(id.attrs()...)
	line.AddAttrs(events...)
	for _, a := range slices.Concat(h.groups[0].attrs, attrs) {
		line.AddAttrs(apart(a))
	}
	return h.out.Handle(ctx, line)
}

// apart renames an attribute that has a reserved name, and one that has spaces in its name. Events
// have the names that they are to have.
func apart(a slog.Attr) slog.Attr {
	// The attributes of a group without a name are the line's own.
	if a.Key == "" && !IsEvent(a) {
		a.Value = a.Value.Resolve()
		if a.Value.Kind() == slog.KindGroup {
			inner := slices.Clone(a.Value.Group())
			for i := range inner {
				inner[i] = apart(inner[i])
			}
			return slog.Attr{Value: slog.GroupValue(inner...)}
		}
	}
	if strings.Contains(a.Key, " ") {
		a.Key = strings.ReplaceAll(a.Key, " ", "_")
	}
	if slices.Contains(reserved, a.Key) {
		a.Key = nodePrefix + a.Key
	}
	return a
}

// writerOf is the writer of a logger that New or WithLevel has made; nil: of none.
func writerOf(l *slog.Logger) *writer {
	if l == nil {
		return nil
	}
	h := l.Handler()
	for {
		switch x := h.(type) {
		case *handler:
			return x.who
		case leveled:
			h = x.Handler
		default:
			return nil
		}
	}
}

// IsJSON reports whether a logger writes the JSON lines of this package.
func IsJSON(l *slog.Logger) bool { return writerOf(l) != nil }

// SetRank sets the rank of the lines that follow, of l and of all loggers that share its Identity.
// Another package's logger stays as it is.
func SetRank(l *slog.Logger, rank int) {
	if w := writerOf(l); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.id.Rank = rank
	}
}

// SetJob does the same with the job's ID.
func SetJob(l *slog.Logger, job string) {
	if w := writerOf(l); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.id.Job = job
	}
}
