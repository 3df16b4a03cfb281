package hostsource

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/launch/internal/local"
)

// TestMain makes this program an agent, too: the one that runs the commands.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		err := agent.Serve(context.Background(), os.Stdin, os.Stdout, agent.Config{Lease: -1, Adopt: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if sharedAgent != nil {
		sharedAgent.Close()
	}
	os.Exit(code)
}

func startAgent(ctx context.Context) (*local.Machine, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return local.Start(ctx, []string{exe, "agent"}, os.Stderr)
}

// sharedAgent runs the commands of all tests that do not end it: its start takes a second with the
// race detector.
var sharedAgent *local.Machine

// A borrowed machine is one that others use, too.
type borrowed struct{ *local.Machine }

func (borrowed) Close() error { return nil }

// newCommand makes a Command.
func newCommand(t *testing.T, text string) *Command {
	t.Helper()
	return NewCommand(text, func(ctx context.Context) (Machine, error) {
		if sharedAgent == nil {
			var err error
			if sharedAgent, err = startAgent(ctx); err != nil {
				return nil, err
			}
		}
		return borrowed{sharedAgent}, nil
	})
}

func TestCommandIsAskedInAShell(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	c := newCommand(t, `echo x >> `+count+`; echo looking >&2; for i in $(cat `+count+`); do n=$((n+1)); printf '{"host":"d%d"}\n' $n; done`)
	for _, want := range []string{"d1 0", "d1 0, d2 0"} {
		got, err := c.Ask(t.Context())
		if err != nil || texts(got) != want {
			t.Errorf("Ask: %s, %v, want %s", texts(got), err, want)
		}
	}
}

// None of these is an empty list.
func TestCommandThatFailsGivesNoAnswer(t *testing.T) {
	c := newCommand(t, "")
	for _, tc := range []struct{ name, text, want string }{
		{"exit code", `echo '{"host":"d1"}'; exit 3`, "exit 3"},
		{"exit code with a message", `echo first >&2; printf 'Unable to locate\377 credentials\n\n' >&2; exit 253`, "exit 253: Unable to locate? credentials"},
		{"a long message", `printf '%0400d' 0 >&2; exit 1`, "exit 1: " + strings.Repeat("0", maxComplaint)},
		{"a signal", `echo '{"host":"d1"}'; kill -9 $$`, "signal 9 (killed)"},
		{"no such program", `no-such-program`, "exit 127: "},
		{"output that is cut", `printf '{"host":"d1"}\n{"host":'`, `line 2: "{\"host\":" is incomplete`},
		{"output without an end", `yes '{"host":"d1"}' | head -c 3000000`, "got more than 1048576 bytes"},
		{"a hosts file", `echo d1`, `line 1: "d1" is not JSON`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c.text = tc.text
			got, err := c.Ask(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || got != nil {
				t.Errorf("Ask: %s, %v, want an error with %q", texts(got), err, tc.want)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// A command that does not end is killed with all that it has started, and the next one is asked as
// ever.
func TestCommandThatDoesNotEndIsKilled(t *testing.T) {
	dir := t.TempDir()
	c := newCommand(t, `if mkdir `+dir+`/first; then sleep 1000 & echo $! > `+dir+`/pid; mv `+dir+`/pid `+dir+`/started; echo '{"host":"d9"}'; wait; fi; echo '{"host":"d1"}'`)
	c.limit = 300 * time.Millisecond
	got, err := c.Ask(t.Context())
	if err == nil || err.Error() != "it did not end within 300ms, and was killed" {
		t.Fatalf("Ask: %s, %v, want that it did not end", texts(got), err)
	}

	// On a loaded machine the shell may not have come so far.
	if text, err := os.ReadFile(dir + "/started"); err == nil {
		// The process was sent the signal, and may not have had the processor since.
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat")

			// It waits for its parent to take note.
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Since(begin) > 5*time.Second {
				t.Fatalf("a process of the command is left: %s", stat)
			}
		}
	}
	c.limit = answerTime
	if got, err := c.Ask(t.Context()); err != nil || texts(got) != "d1 0" {
		t.Errorf("the next Ask: %s, %v, want d1", texts(got), err)
	}
}

// An agent that is lost is replaced with the next question.
func TestLostAgentOfTheCommandIsReplaced(t *testing.T) {
	agents := 0
	c := NewCommand(`echo '{"host":"d1"}'; kill -9 $PPID`, func(ctx context.Context) (Machine, error) { agents++; return startAgent(ctx) })
	defer c.Close()
	if got, err := c.Ask(t.Context()); err == nil {
		t.Errorf("Ask with a lost agent: %s, want an error", texts(got))
	}
	for range 2 {
		c.text = `echo '{"host":"d2"}'`
		if got, err := c.Ask(t.Context()); err != nil || texts(got) != "d2 0" {
			t.Errorf("Ask: %s, %v, want d2", texts(got), err)
		}
	}
	if agents != 2 {
		t.Errorf("%d agents were started, want 2", agents)
	}
}
