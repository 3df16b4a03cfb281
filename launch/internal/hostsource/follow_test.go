package hostsource

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/logline"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// A scriptedSource is a source in memory.
type scriptedSource struct {
	t *testing.T

	mu sync.Mutex // guards the rest

	// text is the answer as of func answer, or "!" and the error.
	text string

	asks int
}

func (s *scriptedSource) set(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

func (s *scriptedSource) Ask(context.Context) ([]Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	if text, bad := strings.CutPrefix(s.text, "!"); bad {
		return nil, errors.New(text)
	}
	return answer(s.t, s.text), nil
}
func (*scriptedSource) String() string { return "--hosts-command" }
func (*scriptedSource) Close() error   { return nil }

// A scriptedJob says what it is told to, and keeps what it is asked for.
type scriptedJob struct {
	mu sync.Mutex // guards the rest

	// hosts is nil while it is being started.
	hosts []control.Host

	again []string
}

func (j *scriptedJob) set(hosts ...control.Host) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hosts = hosts
}

// asked are the hosts that it was asked for since the last call.
func (j *scriptedJob) asked() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := strings.Join(j.again, ", ")
	j.again = nil
	return text
}

func (j *scriptedJob) Hosts(context.Context) ([]control.Host, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.hosts == nil {
		return nil, errors.New("it is being started")
	}
	return j.hosts, nil
}

func (j *scriptedJob) Again(_ context.Context, h hosts.Host) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.again = append(j.again, h.Entry())
	return nil
}

// A logBuffer keeps a log.
type logBuffer struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// said are the lines since the last call, from their level on.
func (l *logBuffer) said() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		for _, level := range []string{"INFO ", "WARNING ", "ERROR "} {
			if _, text, ok := strings.Cut(line, level); ok {
				lines = append(lines, strings.TrimSpace(level+text))
				break
			}
		}
	}
	l.text.Reset()
	return lines
}

func newFollower(t *testing.T, text string, force bool) (*Follower, *scriptedSource, *logBuffer) {
	t.Helper()
	var log logBuffer
	s := &scriptedSource{t: t, text: text}
	l := slog.New(logline.New(&log, slog.LevelInfo, nil))
	progress := func(text string) {
		if text != "" {
			l.Info(text)
		}
	}
	return New(Config{Source: s, Interval: 5 * time.Second, Force: force, Progress: progress, Logger: l}), s, &log
}

// follow begins to follow, until end is called.
func follow(t *testing.T, f *Follower, file *hostworker.Files, job Job) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { f.Follow(ctx, file, job); close(done) }()
	synctest.Wait()
	return func() { cancel(); <-done }
}

func newFile(t *testing.T, text string) *hostworker.Files {
	t.Helper()
	all, err := hosts.Parse(strings.NewReader(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	f, err := hostworker.Open(t.TempDir(), all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestFollowerEditsTheFileAndTellsChangesOnce(t *testing.T) {
	file := newFile(t, "d1\nd2\nd9\n")
	synctest.Test(t, func(t *testing.T) {
		f, s, log := newFollower(t, "d1 d2", false)
		end := follow(t, f, file, &scriptedJob{})
		for i, step := range []struct {
			text, file string
			said       string // the beginnings of the log's lines
		}{
			{"d1 d2 d3/2", "d1\nd2\nd9\nd3 slots=2\n", "INFO --hosts-command: adds d3 slots=2"},
			{"d1 d2 d3/2", "d1\nd2\nd9\nd3 slots=2\n", ""},
			{"!exit 3", "d1\nd2\nd9\nd3 slots=2\n", "WARNING --hosts-command: exit 3; no host is added or removed until it answers"},
			{"!exit 3", "d1\nd2\nd9\nd3 slots=2\n", ""},
			{"!exit 4", "d1\nd2\nd9\nd3 slots=2\n", "WARNING --hosts-command: exit 4; no host"},
			{"d1 d2=stopping d3/2 d4=odd", "d1\nd9\nd3 slots=2\n", "INFO --hosts-command answers again|INFO --hosts-command: removes d2|WARNING --hosts-command: unknown states: d4 (odd); nothing changes"},
			{"d1 d3/2 d4=odd", "d1\nd9\nd3 slots=2\n", ""},
			{"", "d1\nd9\nd3 slots=2\n", ""},
			{"", "d1\nd9\nd3 slots=2\n", "WARNING --hosts-command would remove d1 (no longer named), d3 (no longer named), 2 of its 2 hosts in the job, more than half of them; no host is removed. If they should leave, remove them (launch ctl remove HOST), or start the job with --hosts-force"},
			{"", "d1\nd9\nd3 slots=2\n", ""},
			{"d1 d5", "d1\nd9\nd5\n", "INFO --hosts-command: removes d3 slots=2, adds d5"},
		} {
			s.set(step.text)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			b, err := os.ReadFile(file.Path)
			if err != nil || string(b) != step.file {
				t.Errorf("answer %d, %q: host_worker is %q, %v, want %q", i, step.text, b, err, step.file)
			}
			var want []string
			if step.said != "" {
				want = strings.Split(step.said, "|")
			}
			got := log.said()
			for n := range max(len(got), len(want)) {
				if n >= len(got) || n >= len(want) || !strings.HasPrefix(got[n], want[n]) {
					t.Errorf("answer %d, %q: said %q, want %q", i, step.text, got, want)
					break
				}
			}
		}
		if end(); s.asks != 12 {
			t.Errorf("asked %d times in 55 s, want 12", s.asks)
		}
	})
}

// The file is an operator's, too: what cannot be read is left alone, and the answer counts when it
// can be read again.
func TestFollowerLeavesAFileAloneThatCannotBeRead(t *testing.T) {
	f, _, log := newFollower(t, "", false)
	file := newFile(t, "d1\nd2\n")
	for _, step := range []struct{ operator, answer, want string }{
		{"", "d1 d2", "d1\nd2\n"}, {"d1 slot=2\n", "d1 d3", "d1 slot=2\n"}, {"", "d1 d3", "d1 slot=2\n"}, {"d1\nd2\n", "d1 d3", "d1\nd2\nd3\n"},
	} {
		if step.operator != "" {
			if err := os.WriteFile(file.Path, []byte(step.operator), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f.carryOut(answer(t, step.answer), file)
		if b, _ := os.ReadFile(file.Path); string(b) != step.want {
			t.Errorf("host_worker is %q, want %q; %q", b, step.want, log.said())
		}
	}
}

func TestEditThatFailsIsRepeated(t *testing.T) {
	f, _, log := newFollower(t, "", false)
	file := newFile(t, "d1\n")

	// The new file is made there.
	if err := os.Mkdir(file.Path+".tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	f.carryOut(answer(t, "d1 d2"), file)
	if lines := log.said(); len(lines) != 1 || !strings.HasPrefix(lines[0], "ERROR launch: worker host file: ") {
		t.Errorf("said %q, want that the file cannot be written", lines)
	}
	if err := os.Remove(file.Path + ".tmp"); err != nil {
		t.Fatal(err)
	}
	f.carryOut(answer(t, "d1 d2"), file)
	if b, _ := os.ReadFile(file.Path); string(b) != "d1\nd2\n" {
		t.Errorf("host_worker is %q, want d2, too; %q", b, log.said())
	}
}

// Hosts that run and are not in the job are asked for again, less and less often; those that are
// being added, that an operator removed or that do not run are not.
func TestHostsThatFailedAreAskedForAgain(t *testing.T) {
	file := newFile(t, "d1\nd2\nd3\nd4\nd9\n")
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := newFollower(t, "d1 d2/2 d3 d4", false)
		job := &scriptedJob{}
		end := follow(t, f, file, job)
		time.Sleep(time.Second) // between two answers
		pass := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := job.asked(); got != want {
				t.Errorf("asked for %q again, want %q", got, want)
			}
		}
		status := func(d2 string, more ...control.Host) {
			job.set(append([]control.Host{{Host: "d1", Status: control.Added}, {Host: "d2", Status: d2}, {Host: "d3", Status: control.Added}, {Host: "d9", Status: control.HostFailed}}, more...)...)
		}
		pass(time.Minute, "")

		// The job does not know d4: it had no place for it.
		status(control.HostFailed)
		pass(15*time.Second, "d2 slots=2, d4") // 10 s after the first answer
		pass(15*time.Second, "")
		status(control.AddQueued)
		pass(5*time.Second, "d4") // 20 s
		pass(35*time.Second, "")

		// Its turn came while it was being added.
		status(control.HostFailed)
		pass(5*time.Second, "d2 slots=2, d4")
		s.set("d1 d2=pending d3 d4=stopped")

		// After another 40 s d4 does not run, and is no longer in the file.
		pass(40*time.Second, "d2 slots=2")
		s.set("d1 d2=stopped d3 d4")
		status(control.Removed)
		pass(15*time.Second, "") // it is added to the file
		pass(20*time.Second, "d4")
		status(control.Removed, control.Host{Host: "d4", Status: control.Added})
		pass(time.Hour, "")
		end()
	})
}

func TestFirstHostsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, log := newFollower(t, "!exit 1", false)
		var got []hosts.Host
		var err error
		done := make(chan struct{})
		go func() { got, err = f.Await(t.Context(), 4); close(done) }()
		for _, step := range []struct{ text, said string }{
			{"", "WARNING --hosts-command: exit 1; no host is added or removed until it answers"},
			{"d2=pending", "INFO --hosts-command answers again|INFO waiting for hosts of --hosts-command: 0 of 4 slots are there (none), not running yet: d2 (pending)"},
			{"d2=pending", ""},
			{"d2 d1/2", "INFO waiting for hosts of --hosts-command: 3 of 4 slots are there (d2, d1 slots=2)"},
			{"d2 d1/2 d3 d4", ""},
		} {
			if step.text != "" {
				s.set(step.text)
				time.Sleep(5 * time.Second)
			}
			synctest.Wait()
			if text := strings.Join(log.said(), "|"); text != step.said {
				t.Errorf("answer %q: said %q, want %q", step.text, text, step.said)
			}
		}
		<-done
		if err != nil || entries(got) != "d2, d1 slots=2, d3, d4" {
			t.Errorf("Await: %s, %v, want d2, d1, d3 and d4", entries(got), err)
		}
	})
}

func TestWaitForFirstHostsEnds(t *testing.T) {
	for text, want := range map[string]string{
		"d1 d2=pending": "launch: --hosts-command: wait for hosts with slots for 2 workers: after 5m0s; 1 of 2 slots are there (d1), not running yet: d2 (pending)",
		"!exit 9":       "launch: --hosts-command: wait for hosts with slots for 2 workers: after 5m0s; the last request failed: exit 9",
	} {
		synctest.Test(t, func(t *testing.T) {
			f, _, _ := newFollower(t, text, false)
			ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("after 5m0s"))
			defer cancel()
			if got, err := f.Await(ctx, 2); err == nil || err.Error() != want {
				t.Errorf("Await: %s, %v, want the error %s", entries(got), err, want)
			}
		})
	}
}
