package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

// A hostList is a list of hosts in a file, which a command prints.
type hostList struct{ path string }

func newHostList(t *testing.T) *hostList {
	return &hostList{filepath.Join(t.TempDir(), "list")}
}

// set writes the list: hosts, each perhaps with a state behind a space. It is replaced whole.
func (l *hostList) set(t *testing.T, hosts ...string) {
	t.Helper()
	if err := os.WriteFile(l.path+".next", []byte(jsonLines(hosts)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(l.path+".next", l.path); err != nil {
		t.Fatal(err)
	}
}

func jsonLines(hosts []string) string {
	text := ""
	for _, h := range hosts {
		name, state, _ := strings.Cut(h, " ")
		text += fmt.Sprintf("{\"host\":%q,\"state\":%q,\"zone\":\"a\"}\n", name, state)
	}
	return text
}

// The job begins when the list has hosts enough, over ssh, and then follows it.
func TestHostsOfACommandStartTheJobAndComeAndGo(t *testing.T) {
	sshtest.Cluster(t)
	t.Parallel()
	needProc(t)
	s := sshtest.Start(t, 3)
	j := &elasticJob{dir: t.TempDir(), stop: filepath.Join(t.TempDir(), "stop")}
	host := func(i int) string { return j.host(s, i) }
	list := newHostList(t)
	list.set(t, host(0), host(1)+" pending")
	j.launcher = startLauncher(t, j.dir, "--hosts-command", "cat "+list.path, "--hosts-interval", "1s", "--ssh-command", strings.Join(s.Client, " "), "-n", "2", "-s", "1",
		"--elastic-training-enabled", "--env", stopFile+"="+j.stop, "--", self(t))
	j.await(t, fmt.Sprintf("waiting for hosts of --hosts-command: 1 of 2 slots are there (%s), not running yet: %s (pending)", host(0), host(1)))
	list.set(t, host(0), host(1))
	j.await(t, "begins as 0 of 2, joined false")
	j.await(t, "begins as 1 of 2, joined false")
	list.set(t, host(0), host(1), host(2)+" running")
	j.await(t, "--hosts-command: adds "+host(2))
	j.await(t, "worker 0  | goes on as 0 of 3")
	list.set(t, host(0), host(1), host(2)+" terminated")
	j.await(t, "--hosts-command: removes "+host(2))
	j.await(t, host(2)+" has left the job")
	j.finish(t)
	j.wantLog(t, strings.ReplaceAll("0 ADDED <2> #\n1 REMOVED <2> #\n", "<2>", host(2)))
}

// A list at a URL adds hosts to a job on this machine. What an operator removes stays removed.
func TestHostsOfAURLComeAndGo(t *testing.T) {
	sshtest.Cluster(t)
	t.Parallel()
	var mu sync.Mutex
	var list []string
	set := func(hosts ...string) { mu.Lock(); list = hosts; mu.Unlock() }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		io.WriteString(w, jsonLines(list))
	}))
	defer server.Close()
	j := startElastic(t, "--hosts-url", server.URL, "--hosts-interval", "1s", "--hosts-force", "--launcher", "local")
	set("127.0.0.2", "127.0.0.3")
	j.await(t, "goes on as 0 of 4")
	j.wantCtl(t, 0, "127.0.0.2 REMOVED", "remove", "--wait", "127.0.0.2")
	set()
	j.await(t, "--hosts-url "+server.URL+": removes 127.0.0.3")
	j.await(t, "127.0.0.3 has left the job")
	j.wantHosts(t, "localhost slots=2\n")
	j.finish(t)
	b, err := os.ReadFile(filepath.Join(j.dir, "host_worker_log"))
	if text := string(b); err != nil || strings.Count(text, "ADDED") != 2 || strings.Count(text, "REMOVED") != 2 {
		t.Errorf("host_worker_log is %q, %v, want two hosts that came and left", text, err)
	}
}

// A host that could not join is added again while the list says that it runs: an instance runs
// before its sshd answers. A list that cannot be had, or is empty, removes nothing.
func TestHostOfTheListThatFailedIsTriedAgain(t *testing.T) {
	sshtest.Cluster(t)
	t.Parallel()
	list, ready := newHostList(t), filepath.Join(t.TempDir(), "ready")
	list.set(t, "127.0.0.2")
	j := startElastic(t, "--hosts-command", "cat "+list.path, "--hosts-interval", "1s", "--launcher", "local", "--prepare-data", "test -e "+ready)
	j.await(t, "host 127.0.0.2 could not join: prepare-data: exit 1")
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	j.await(t, "goes on as 0 of 3") // some seconds later
	if err := os.Remove(list.path); err != nil {
		t.Fatal(err)
	}
	j.await(t, "--hosts-command: exit 1: cat: ")
	list.set(t)
	j.await(t, "--hosts-command would remove 127.0.0.2 (no longer named), 1 of its 1 hosts in the job")
	j.finish(t)
	j.wantLog(t, "0 ADDED 127.0.0.2 #\n")
}

func TestLaunchWithAHostsCommandLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, how := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			l := startLauncher(t, t.TempDir(), "-n", "1", "--hosts-command", "sleep 1000 & echo $! > "+pid+".new; mv "+pid+".new "+pid+"; wait", "--", "true")
			var text []byte
			for begin := time.Now(); len(text) == 0; time.Sleep(20 * time.Millisecond) {
				if text, _ = os.ReadFile(pid); time.Since(begin) > patience {
					t.Fatal("the command has not begun")
				}
			}
			at := time.Now()
			if err := l.Process.Signal(how); err != nil {
				t.Fatal(err)
			}
			l.exit(t)
			n, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			wantNone(t, at, func() []int {
				if ended(n) {
					return nil
				}
				return []int{n}
			})
			if code := l.ProcessState.ExitCode(); how == os.Interrupt && code != 130 {
				t.Errorf("exit code %d after Ctrl-C, want 130", code)
			}
		})
	}
}

func TestFirstHostsThatDoNotComeAreAnError(t *testing.T) {
	t.Parallel()
	l := startLauncher(t, t.TempDir(), "-n", "2", "--start-timeout", "1s", "--hosts-interval", "1s", "--hosts-command", `echo '{"host":"d1"}'`, "--", "true")
	if code := l.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if want := "launch: --hosts-command: wait for hosts with slots for 2 workers: gave up after 1s (--start-timeout); 1 of 2 slots are there (d1)"; !strings.Contains(l.stderr.String(), want) {
		t.Errorf("got %s, want %s", l.stderr, want)
	}
}
