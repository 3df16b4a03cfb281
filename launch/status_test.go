package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/launch/internal/command"
)

// A viewer is a browser that reads the stream of a live page.
type viewer struct {
	t      *testing.T
	client *http.Client
	base   string
	lines  *bufio.Scanner
}

// viewPage opens a link, and then the stream.
func viewPage(t *testing.T, link string) *viewer {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &viewer{t: t, client: &http.Client{Jar: jar, Timeout: 2 * patience}, base: link[:strings.Index(link, "?")]}
	opened, err := v.client.Get(link)
	if err != nil || opened.StatusCode != http.StatusOK || opened.Request.URL.RawQuery != "" {
		t.Fatalf("open %s: %v, %v; want the page, without the token in its address", link, opened, err)
	}
	opened.Body.Close()
	r, err := v.client.Get(v.base + "api/events")
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %v, %v", r, err)
	}
	t.Cleanup(func() { r.Body.Close() })
	v.lines = bufio.NewScanner(r.Body)
	v.lines.Buffer(nil, 8<<20)
	return v
}

// await reads until an event comes for which ok is true.
func (v *viewer) await(event string, ok func(data map[string]any) bool) {
	v.t.Helper()
	came, begin := "", time.Now()
	for v.lines.Scan() && time.Since(begin) < patience {
		name, text, _ := strings.Cut(v.lines.Text(), ": ")
		if name == "event" {
			came = text
		}
		if name != "data" || came != event {
			continue
		}
		var data map[string]any
		if err := json.Unmarshal([]byte(text), &data); err != nil {
			v.t.Fatalf("%s: %v", event, err)
		}
		if ok(data) {
			return
		}
	}
	v.t.Fatalf("no such %s came; the last event was %s, the stream's error %v", event, came, v.lines.Err())
}

// The page shows the job's workers, goes on when the scheduler was started again, and says at the
// end how the job ended. A link works once.
func TestLivePageOfARunningJob(t *testing.T) {
	t.Parallel()
	j := startElastic(t)
	printed := regexp.MustCompile(`live page: (http://127\.0\.0\.1:\d+/\?token=\S+)`).FindStringSubmatch(j.stderr.String())
	if printed == nil {
		t.Fatal("the log has no link to the live page")
	}
	v := viewPage(t, printed[1])
	workers := func(data map[string]any) bool {
		job, _ := data["job"].(map[string]any)
		return job["workers"] == 2.0 && data["phase"] == "running"
	}
	v.await("state", workers)
	v.await("update", workers)
	if r, err := http.Get(printed[1]); err != nil || r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the link a second time: %v, %v, want 401", r, err)
	}
	_, out := j.ctl(t, "page")
	again := viewPage(t, strings.TrimSpace(out))
	again.await("state", workers)

	kill(t, j.process(t, "scheduler", 0))
	j.await(t, "scheduler on localhost listens again at ")
	v.await("state", workers) // of another incarnation
	if err := os.WriteFile(j.stop, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	v.await("end", func(data map[string]any) bool {
		return data["error"] == "" && data["phase"] == "finished"
	})
	if code := j.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestLivePageIsRefusedWhereItIsNotSafe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "no.pem")
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"--status-listen", "0.0.0.0:0"}, "other machines can reach this address, so the page needs a TLS certificate (--status-cert and --status-key)", 1},
		{[]string{"--status-listen", "192.0.2.1:80"}, "launch: --status-listen: page: listen tcp 192.0.2.1:80", 1},
		{[]string{"--status-listen", "8080"}, `--status-listen: address "8080": want host:port, or off`, command.ExitUsage},
		{[]string{"--status-listen", ""}, "--status-listen is empty; want host:port, or off", command.ExitUsage},
		{[]string{"--status-cert", file}, "--status-cert and --status-key belong together", command.ExitUsage},
		{[]string{"--status-cert", file, "--status-key", file}, "no such file", 1},
	} {
		l := startLauncher(t, "", append(c.args, "-n", "1", "-s", "1", "true")...)
		if code := l.exit(t); code != c.code || !strings.Contains(l.stderr.String(), c.want) {
			t.Errorf("launch %q: exit code %d, want %d and %q", c.args, code, c.code, c.want)
		}
	}
	l := startLauncher(t, "", "-n", "1", "-s", "1", "--status-listen", "off", "true")
	if code := l.exit(t); code != 0 || strings.Contains(l.stderr.String(), "live page") {
		t.Errorf("with the page off: exit code %d, want 0 and no link", code)
	}
}
