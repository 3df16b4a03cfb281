//go:build unix

package agent

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
)

// An agent that was told to end leaves its processes to a launcher that takes the notice: they get
// no signal, and when they have ended it ends, too.
func TestAgentThatIsToldToEndLeavesItsProcessesToTheLauncher(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, served := serveUntil(t, ctx, Config{Drain: time.Minute})
	out, dismissed := newOutput(), filepath.Join(t.TempDir(), "dismissed")
	spec := shell(`trap 'echo asked; exit 1' TERM; echo ready; while ! [ -e "$DISMISSED" ]; do sleep 0.01; done; echo left`)
	spec.Env = []string{"DISMISSED=" + dismissed}
	h, err := c.Start(t.Context(), spec, process.Output{Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, "ready")
	leaving := c.Leaving()
	cancel()
	n := <-leaving
	if n.Code != NoticeTerminated || n.Left != time.Minute || n.Withdrawn || n.Text == "" {
		t.Errorf("got notice %+v, want that the agent was told to end, a minute from now", n)
	}
	if _, err := c.Start(t.Context(), shell("true"), process.Output{}); err == nil || !strings.Contains(err.Error(), "starts no more processes") {
		t.Errorf("Start on a host that is taken away: %v, want an error that says so", err)
	}
	if err := os.WriteFile(dismissed, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if e := await(t, h); !e.OK() || out.String() != "ready\nleft\n" {
		t.Errorf("the process ended with %s and printed %q, want 0 and no signal", e, out)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v, want nil", err)
	}
}

// What is left then gets SIGTERM and SIGKILL: when the time is nearly over, or at once if the
// launcher goes.
func TestAgentEndsWhatTheLauncherHasNotLetGo(t *testing.T) {
	const drain, grace = 1200 * time.Millisecond, 300 * time.Millisecond
	for _, tc := range []struct {
		name string
		gone bool
	}{{"time over", false}, {"launcher gone", true}} {
		ctx, cancel := context.WithCancel(t.Context())
		c, served := serveUntil(t, ctx, Config{Drain: drain, Grace: grace})
		out := newOutput()
		if _, err := c.Start(t.Context(), shell(`trap "echo asked" TERM; echo $$; while :; do sleep 0.01; done`), process.Output{Stdout: out}); err != nil {
			t.Fatal(err)
		}
		out.await(t, "\n")
		pid, _, _ := strings.Cut(out.String(), "\n")
		leaving, begin := c.Leaving(), time.Now()
		cancel()
		<-leaving
		if tc.gone {
			c.stop()
		}
		out.await(t, "asked")
		if asked := time.Since(begin); !tc.gone && asked < drain-grace {
			t.Errorf("%s: SIGTERM came after %s, want %s: the launcher had taken the notice", tc.name, asked, drain-grace)
		}
		if err := <-served; err != nil {
			t.Errorf("%s: Serve: %v, want nil", tc.name, err)
		}
		awaitGone(t, pid)
	}
}

// An agent that could not read for longer than its lease reads what waits before it takes its
// launcher for dead.
func TestAnAgentThatIsBehindReadsOn(t *testing.T) {
	// The Go scheduler chooses what comes first.
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			served := make(chan error, 1)
			go func() {
				served <- Serve(t.Context(), inR, outW, Config{Lease: 4 * time.Second})
				outW.Close()
				inR.Close()
			}()
			if _, err := readHello(&lineReader{bufio.NewReader(outR)}); err != nil {
				t.Fatal(err)
			}
			go func() {
				inW.Write(appendFrame(nil, kindStart, 1, []byte("no JSON")))
				for range 30 {
					inW.Write(appendFrame(nil, kindPing, 0, nil))
					time.Sleep(PingInterval)
				}
				inW.Close()
			}()
			time.Sleep(6 * time.Second) // nobody takes its answer
			go io.Copy(io.Discard, outR)
			if err := <-served; err != nil {
				t.Errorf("Serve: %v, want nil: the launcher has closed it", err)
			}
		})
	}
}

// What the provider says of a host goes to the launcher, the newest notice first, also to one that
// looks only later.
func TestNoticesReachTheLauncher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan Notice)
		ended := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		served := make(chan error, 1)
		go func() {
			served <- Serve(ctx, inR, outW, Config{Watch: func(ctx context.Context, tell func(Notice)) {
				defer close(ended)
				for {
					select {
					case n := <-more:
						tell(n)
					case <-ctx.Done():
						return
					}
				}
			}})
			outW.Close()
			inR.Close()
		}()
		c, err := NewClient(ctx, "d1", inW, outR)
		if err != nil {
			t.Fatal(err)
		}
		want := Notice{Code: NoticePreempted, Text: "the machine is stopped", Left: 2 * time.Minute}
		more <- Notice{Code: NoticeAtRisk}
		more <- want
		synctest.Wait()
		if got := <-c.Leaving(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		more <- Notice{Code: NoticePreempted, Withdrawn: true}
		if got := <-c.Leaving(); !got.Withdrawn {
			t.Errorf("got %+v, want that it was withdrawn", got)
		}
		cancel()
		if n := <-c.Leaving(); n.Code != NoticeTerminated {
			t.Errorf("got %+v, want that the agent was told to end", n)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v, want nil", err)
		}
		<-ended
		<-c.Gone()
	})
}

// Whatever an agent says of its notice, the launcher gets one that is short, printable, and not too
// far away; nonsense ends the connection.
func TestNoticesAreWithinTheirBounds(t *testing.T) {
	for _, tc := range []struct {
		body string
		want Notice
		fail bool
	}{
		{`{"Code":"preempted","Left":30000000000}`, Notice{Code: "preempted", Left: 30 * time.Second}, false},
		{`{"Left":-5,"Text":"a\nb\u001b[31m"}`, Notice{Text: "a b [31m"}, false},
		{`{"Left":9223372036854775807}`, Notice{Left: maxNoticeLeft}, false},
		{`{"Code":"` + strings.Repeat("x", 1000) + `","Text":"` + strings.Repeat("é", 1000) + `"}`, Notice{Code: strings.Repeat("x", 64), Text: strings.Repeat("é", maxNoticeText/2)}, false},
		{`{"Unknown":1}`, Notice{}, false},
		{`null`, Notice{}, false},
		{`{"Left":"soon"}`, Notice{}, true},
		{``, Notice{}, true},
	} {
		got, err := decodeNotice([]byte(tc.body))
		if got != tc.want || (err != nil) != tc.fail {
			t.Errorf("%.60s: got %+v, %v, want %+v, failure %t", tc.body, got, err, tc.want, tc.fail)
		}
	}
}

// A notice is shown on the launcher's terminal.
func TestNoticeTextIsPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\x1b[2J\x7f":         "a b [2J ",
		"a\u009b2J\u202eb\u2028c": "a 2J b c",
		"höst 例":                  "höst 例",
	} {
		if got := clip(text, maxNoticeText); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
