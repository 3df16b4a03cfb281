package preflight

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A fake machine answers as it is told; the connections are real.
type fake struct {
	address string
	answer  func(q agent.Question, a *agent.Answer)
}

func (m *fake) Address() string { return m.address }
func (m *fake) Close() error    { return nil }

// noon is what all clocks show, so that nothing depends on how long an answer takes.
var noon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

func (m *fake) Ask(ctx context.Context, q agent.Question) (agent.Answer, error) {
	a := agent.Answer{Time: noon, Dial: map[string]string{}}
	if q.Listen != "" {
		a.Listening, _ = agent.Greet(ctx, q.Listen, q.Hold)
	}
	for _, addr := range q.Dial {
		if err := agent.CheckGreeting(ctx, addr); err != nil {
			a.Dial[addr] = err.Error()
		}
	}
	if m.answer != nil {
		m.answer(q, &a)
	}
	if a.Err != "" {
		return a, errors.New(a.Err)
	}
	return a, nil
}

// found is a machine that has every program.
func found(program string) (string, error) { return "/usr/bin/" + program, nil }

func TestALaunchingMachineWithoutRsyncIsAProblemOfEachHost(t *testing.T) {
	cfg := Config{
		Hosts: []hosts.Host{{Name: "d1"}, {Name: "d2"}}, SyncDir: "/job", now: func() time.Time { return noon },
		lookPath: func(program string) (string, error) { return "", &exec.Error{Name: program, Err: exec.ErrNotFound} },
		Dial:     func(context.Context, hosts.Host) (Machine, error) { return &fake{address: "127.0.0.1"}, nil },
		Launcher: func([]Machine) (string, error) { return "127.0.0.1", nil },
		Copy: func(context.Context, Machine, string, string) error {
			t.Error("a file was copied without rsync")
			return nil
		},
	}
	for _, r := range Check(t.Context(), cfg) {
		if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "this machine has no rsync") {
			t.Errorf("%s: problems %q, want one that says that rsync is missing here", r.Host, r.Problems)
		}
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	machines := map[string]*fake{
		"good": {address: "127.0.0.1"},
		"late": {address: "127.0.0.1", answer: func(_ agent.Question, a *agent.Answer) { a.Time = noon.Add(time.Hour + 1400*time.Microsecond) }},
		"bare": {address: "127.0.0.1", answer: func(q agent.Question, a *agent.Answer) { a.Missing = q.Programs }},
		"full": {address: "127.0.0.1", answer: func(q agent.Question, a *agent.Answer) {
			if q.MakeDir != "" {
				a.Err = "mkdir /job: no space left on device"
			}
		}},
		"walled": {address: "127.0.0.1", answer: func(q agent.Question, a *agent.Answer) {
			for _, addr := range q.Dial {
				a.Dial[addr] = "i/o timeout"
			}
			if a.Listening != "" {
				a.Listening = "127.0.0.1:1" // nobody is there
			}
		}},
	}
	cfg := Config{
		SyncDir: "/job", Timeout: 30 * time.Second, now: func() time.Time { return noon }, lookPath: found,
		Launcher: func([]Machine) (string, error) { return "127.0.0.1", nil },
		Copy:     func(context.Context, Machine, string, string) error { return nil },
		Dial: func(_ context.Context, h hosts.Host) (Machine, error) {
			if m := machines[h.Name]; m != nil {
				return m, nil
			}
			return nil, errors.New("launch: host gone: No route to host")
		},
	}
	for _, name := range []string{"good", "late", "bare", "full", "walled", "gone"} {
		cfg.Hosts = append(cfg.Hosts, hosts.Host{Name: name})
	}
	var out bytes.Buffer
	if Write(&out, Check(t.Context(), cfg)) {
		t.Error("all hosts are fit")
	}
	text := out.String()
	for _, want := range []string{
		"gone    -          -            1 problem", "gone: No route to host", "late    127.0.0.1  +3600.001 s  2 problems", "late: its clock is off by 1h0m0s;",
		"bare: rsync is missing there", "full: mkdir /job: no space left", "walled: cannot reach the launching machine: i/o timeout",
		"walled: cannot reach good: i/o timeout", "walled: cannot be reached from the launching machine", "good: cannot reach walled: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
}

func TestCheckTellsWhenTheLaunchingMachineCannotListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reports := Check(t.Context(), Config{
		Hosts: []hosts.Host{{Name: "d1"}}, now: func() time.Time { return noon },
		Dial:     func(context.Context, hosts.Host) (Machine, error) { return &fake{address: "127.0.0.1"}, nil },
		Launcher: func([]Machine) (string, error) { return "192.0.2.1", nil },
	})
	if len(reports[0].Problems) != 1 || !strings.Contains(reports[0].Problems[0], "this machine cannot listen on 192.0.2.1") {
		t.Errorf("problems %q", reports[0].Problems)
	}
}
