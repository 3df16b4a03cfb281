package joblog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// object decodes a JSON object and refuses one that has a name twice.
func object(t *testing.T, line string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	d := json.NewDecoder(strings.NewReader(line))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	seen := map[any]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		if seen[name] {
			t.Errorf("%v is there twice in %s", name, line)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestHandlerKeepsTheRulesOfSlog(t *testing.T) {
	var b bytes.Buffer
	h := joblog.New(&b, slog.LevelInfo, joblog.Identity{}).Handler()
	err := slogtest.TestHandler(h, func() (all []map[string]any) {
		for line := range strings.Lines(b.String()) {
			all = append(all, object(t, line))
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

func TestEveryLineSaysWhoWroteIt(t *testing.T) {
	var b bytes.Buffer
	l := joblog.New(&b, slog.LevelInfo, joblog.Identity{Job: "j", Role: "worker", Rank: -1, Process: 7, PID: 123, Host: "a2"})
	want := func(rank int, more map[string]any) {
		t.Helper()
		line := b.String()
		b.Reset()
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
			t.Errorf("got %q, want one line", line)
		}
		m := object(t, line)
		all := map[string]any{"level": "INFO", "job": "j", "role": "worker", "rank": float64(rank), "process": 7., "pid": 123., "host": "a2"}
		for name, value := range more {
			all[name] = value
		}
		for name, value := range all {
			if got := m[name]; fmt.Sprint(got) != fmt.Sprint(value) {
				t.Errorf("%s is %v, want %v in %s", name, got, value, line)
			}
		}
		if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(m["time"])); err != nil || time.Since(at) > time.Hour {
			t.Errorf("time is %v, error %v", m["time"], err)
		}
	}
	l.Info("two\nlines", "took", 1500*time.Millisecond, "norm", math.NaN(), "err", errors.New("no"), "local batch", 4)
	want(-1, map[string]any{"msg": "two\nlines", "took": 1.5, "norm": "NaN", "err": "no", "local_batch": 4})
	older, leveled := l.With("a", 1), joblog.WithLevel(l, slog.LevelInfo)
	joblog.SetRank(leveled, 3)
	older.WithGroup("g").Info("x", "rank", 9)
	want(3, map[string]any{"a": 1, "g": map[string]any{"rank": 9}})
	l.With("host", "b1").Info("x", "rank", 9, "pid", 5, "level", "low", slog.Group("", "role", "server"))
	want(3, map[string]any{"node_rank": 9, "node_host": "b1", "node_pid": 5, "node_level": "low", "node_role": "server"})
	l.Info("x", slog.Any("", values{slog.Int("rank", 9), slog.Any("", values{slog.String("job", "other")})}))
	want(3, map[string]any{"node_rank": 9, "node_job": "other"})
	l.With(joblog.Resumed.With("epoch", 2)).Info("x", "a b", panics{})
	want(3, map[string]any{"event": "resumed", "epoch": 2})
	l.Info("x", joblog.WorkerLost.Of(joblog.Node{Role: "worker", Rank: 1, Host: "a1", Process: 4}, "reason", "killed"))
	want(3, map[string]any{"event": "worker_lost", "node_role": "worker", "node_rank": 1, "node_host": "a1", "node_process": 4, "reason": "killed"})
	l.Info("x", "month", time.May, "role", time.June)
	want(3, map[string]any{"month": "May", "node_role": "June"})
	joblog.SetJob(l, "k")
	l.Info("x")
	want(3, map[string]any{"job": "k"})
	l.Debug("unseen")
	if b.Len() > 0 {
		t.Errorf("got %s at level info", b.String())
	}
	joblog.SetRank(slog.New(slog.DiscardHandler), 1) // another's logger
	if !joblog.IsJSON(older) || !joblog.IsJSON(leveled) || joblog.IsJSON(slog.Default()) {
		t.Error("IsJSON is wrong")
	}
}

// values stand in a line as attributes of its own.
type values []slog.Attr

func (v values) LogValue() slog.Value { return slog.GroupValue(v...) }

// panics has no value.
type panics struct{}

func (panics) LogValue() slog.Value { panic("no value") }

func TestEventsReachAProgramsOwnHandler(t *testing.T) {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "a", 1, joblog.Restart.With("attempt", 2))
	if got := b.String(); !strings.Contains(got, "msg=x a=1 event=restart attempt=2") {
		t.Errorf("got %s", got)
	}
}

func TestLinesOfProcesses(t *testing.T) {
	who := joblog.Identity{Job: "j", Role: "worker", Rank: 1, Process: 7, PID: 123, Host: "a2"}
	ours := `{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"x","job":"j","role":"worker","rank":0,"process":2,"pid":3,"host":"a1"}`
	for _, c := range []struct {
		line string
		more bool

		// want is nil for the line itself.
		want map[string]any
	}{
		{ours, false, nil},
		{ours + " ", false, nil},
		{"panic: it broke", false, map[string]any{"msg": "panic: it broke", "more": false}},
		{"the first piece", true, map[string]any{"msg": "the first piece", "more": true}},
		{`{"level":"WARN","msg":"mine"}`, false, map[string]any{"msg": "", "record": map[string]any{"level": "WARN", "msg": "mine"}}},
		{`{"job":1,"role":2,"rank":"x"}`, false, map[string]any{"record": map[string]any{"job": 1, "role": 2, "rank": "x"}}},
		{`{"cut":`, false, map[string]any{"msg": `{"cut":`}},
		{"{\"x\":\"\xff\"}", false, map[string]any{"msg": "{\"x\":\"\ufffd\"}"}},
		{`[1]`, false, map[string]any{"msg": "[1]"}},
		{"", false, map[string]any{"msg": ""}},
	} {
		got := string(joblog.Output(who, time.Unix(1, 0), []byte(c.line), c.more))
		if !strings.HasSuffix(got, "\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: got %q, want one line", c.line, got)
		}
		if c.want == nil {
			if got != ours+"\n" {
				t.Errorf("%q: got %q, want the line as it is", c.line, got)
			}
			continue
		}
		m := object(t, got)
		c.want["event"], c.want["rank"], c.want["job"], c.want["pid"] = "process_output", 1, "j", 123
		for name, value := range c.want {
			if fmt.Sprint(m[name]) != fmt.Sprint(value) {
				t.Errorf("%q: %s is %v, want %v in %s", c.line, name, m[name], value, got)
			}
		}
	}
}

func TestIdentityOfAProcess(t *testing.T) {
	for _, c := range []struct {
		env  string
		want string // role rank process job host
	}{
		{"DMLC_ROLE=worker PARAGON_RANK=2 PARAGON_PROCESS=5 PARAGON_JOB=ab DMLC_NODE_HOST=a1", "worker 2 5 ab a1"},
		{"DMLC_ROLE=worker PARAGON_RANK=-1 PARAGON_PROCESS=5 PARAGON_JOB=ab DMLC_NODE_HOST=a1", "worker -1 5 ab a1"},
		{"DMLC_ROLE=scheduler PARAGON_RANK=-1 DMLC_NODE_HOST=a1", "scheduler 0 0  a1"},
		{"DMLC_ROLE=server PARAGON_RANK=x PARAGON_PROCESS=-3 DMLC_NODE_HOST=a1", "server -1 0  a1"},
		{"DMLC_NODE_HOST=a1", "worker 0 0  a1"},
	} {
		id := joblog.FromEnv(environment(strings.Fields(c.env)...))
		if got := fmt.Sprint(id.Role, " ", id.Rank, " ", id.Process, " ", id.Job, " ", id.Host); got != c.want || id.PID < 1 {
			t.Errorf("%s: got %s and PID %d, want %s", c.env, got, id.PID, c.want)
		}
	}
	if id := joblog.FromEnv(environment()); id.Host == "" {
		t.Error("got no host")
	}
}

func TestFormatOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		env, err string
		json     bool
	}{
		{"", "", false}, {"PARAGON_LOG_FORMAT=text", "", false}, {"PARAGON_LOG_FORMAT=json", "", true}, {"PARAGON_LOG=warn", "", false},
		{"PARAGON_LOG_FORMAT=xml", `PARAGON_LOG_FORMAT="xml" is unknown; want text or json`, false},
		{"PARAGON_LOG_FORMAT=json PARAGON_LOG=loud", `PARAGON_LOG="loud": want debug, info, warn or error`, false},
	} {
		l, err := joblog.Default(environment(strings.Fields(c.env)...))
		switch {
		case err != nil && err.Error() != c.err || err == nil && c.err != "":
			t.Errorf("%s: got error %v, want %q", c.env, err, c.err)
		case err == nil && joblog.IsJSON(l) != c.json:
			t.Errorf("%s: JSON is %t, want %t", c.env, !c.json, c.json)
		}
	}
}

// In text nothing is seen of events: Go's own handler would write their attributes behind each
// line.
func TestTextHasNoEvents(t *testing.T) {
	var b bytes.Buffer
	defer restoreLog(&b)()
	l, err := joblog.Default(environment())
	if err != nil {
		t.Fatal(err)
	}
	l.With("a", 1).Info("x", joblog.Restart.With("attempt", 2), "b", 2)
	if got := b.String(); !strings.HasSuffix(got, "INFO x a=1 b=2\n") {
		t.Errorf("got %q", got)
	}
}

func BenchmarkJSONLine(b *testing.B) {
	l := joblog.New(io.Discard, slog.LevelInfo, joblog.Identity{Job: "j", Role: "worker", Host: "a1"})
	b.ReportAllocs()
	for b.Loop() {
		l.Info("waiting", "key", "w", joblog.Waiting.With("waiting_for", "worker 1"))
	}
}
