package tune_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"github.com/paragon-train/paragon/internal/member/searchcontrol"
	"github.com/paragon-train/paragon/tune"
)

// newHosts starts hosts with one slot each, over ssh, and makes Jobs that run trials there which do
// what kind says.
func newHosts(t *testing.T, kind string, hosts int) (s *sshtest.Server, j *tune.Jobs, names []string, log *syncBuffer) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds launch and starts processes")
	}
	tune.ProbeOften(t)
	s = sshtest.Start(t, hosts)
	var lines strings.Builder
	for _, a := range s.Addresses {
		names = append(names, fmt.Sprintf("%s:%d", a, s.Port))
		fmt.Fprintf(&lines, "%s:%d slots=1 gpus=0 cpus=1\n", a, s.Port)
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(lines.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv(kindVariable, kind)
	log = &syncBuffer{}
	j = &tune.Jobs{HostFile: file, Address: "127.0.0.1", SSH: strings.Join(s.Client, " "), Launch: launchProgram(t), Logger: slog.New(slog.NewTextHandler(log, nil))}
	return s, j, names, log
}

// withoutServers makes trials that do what kind says one process each, without launch, which would
// pass the variable on.
func withoutServers(j *tune.Jobs, kind string) {
	j.NoServers = true
	j.Command = []string{"/usr/bin/env", kindVariable + "=" + kind, os.Args[0]}
}

// atEvents calls functions when trials have their first event of a kind. Trials count in the order
// of these events, whatever their numbers: where one host is lost, trial 1 may report before trial
// 0 does.
type atEvents struct {
	call map[string]func() // by kind and count from zero: "report 1" is the first report of the second trial that reports
	mu   sync.Mutex
	seen map[string]map[int]bool // trials that had an event, by kind
}

func (a *atEvents) Observe(_ tune.View, e tune.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := fmt.Sprint(e.Kind)
	if a.seen[kind][e.Trial] {
		return
	}
	if a.seen == nil {
		a.seen = map[string]map[int]bool{}
	}
	if a.seen[kind] == nil {
		a.seen[kind] = map[int]bool{}
	}
	what := fmt.Sprint(kind, " ", len(a.seen[kind]))
	a.seen[kind][e.Trial] = true
	if f := a.call[what]; f != nil {
		delete(a.call, what)
		f()
	}
}

// Hosts are lost before the first trial, while trials run, and between trials, and come back. All
// trials end as they would have, and nothing is charged to the user's code.
func TestTrialsSurviveTheLossOfHosts(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
	}
	for _, servers := range []bool{false, true} {
		t.Run(fmt.Sprintf("servers=%t", servers), func(t *testing.T) {
			s, j, names, log := newHosts(t, "well", 2)
			defer func() {
				if t.Failed() {
					t.Log(log.String())
				}
			}()
			if servers {
				j.LaunchFlags = []string{"--env", kindVariable}
			} else {
				withoutServers(j, "well")
			}
			cfg := jobsConfig(t, j)
			cfg.Logger = j.Logger
			cfg.Space = tune.Space{tune.Grid("x", 1, 2, 3, 4, 5, 6)}
			events := &atEvents{call: map[string]func(){
				"report 0": func() { s.Return(t, s.Addresses[1]) },
				"report 1": func() { s.Lose(t, s.Addresses[0]) },
				"report 3": func() { s.Return(t, s.Addresses[0]) },
				"report 4": func() { s.Cut() },
			}}
			cfg.Observers = []tune.Observer{events}
			if _, err := j.Nodes(); err != nil { // both are there now
				t.Fatal(err)
			}
			s.Lose(t, s.Addresses[1])
			result := mustRun(t, cfg)
			if len(events.call) > 0 {
				t.Errorf("not all events came: %v are left", events.call)
			}
			lost := 0
			for _, x := range result.Trials() {
				if x.State != tune.Completed || len(x.Reports) != 4 || x.Failures[tune.UserCode] > 0 {
					t.Errorf("trial %d is %s with %d reports after %d attempts, failures %v: %s; want completed with 4, and none of the user's code", x.Number, x.State, len(x.Reports),
						x.Attempts, x.Failures, x.Error)
				}
				lost += x.Failures[tune.HostUnreachable]
			}
			if lost == 0 {
				t.Error("no trial met the host that was lost before the first one")
			}
			if !strings.Contains(log.String(), "a host answers; trials may run there again\" host="+names[1]) { // the other one may come too late
				t.Errorf("%s was not taken back", names[1])
			}
		})
	}
}

// When all hosts are lost the search waits, and ends with an error that names them. Resumed, it
// goes on.
func TestASearchThatLostItsHostsIsResumed(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
	}
	s, j, names, log := newHosts(t, "well", 2)
	j.LaunchFlags = []string{"--env", kindVariable}
	j.HostTimeout = time.Second
	cfg := jobsConfig(t, j)
	cfg.Logger = j.Logger
	cfg.Space = tune.Space{tune.Grid("x", 1, 2, 3, 4)}
	lose := func() { s.Lose(t, s.Addresses[0]); s.Lose(t, s.Addresses[1]) }
	cfg.Observers = []tune.Observer{&atEvents{call: map[string]func(){"report 2": lose}}}
	result, err := tune.Run(t.Context(), nil, cfg)
	if err == nil || !strings.Contains(err.Error(), "no host for a trial for 1s") || !strings.Contains(err.Error(), names[0]) || !strings.Contains(err.Error(), names[1]) {
		t.Fatalf("got %v, want an error that names both hosts\n%s", err, log.String())
	}
	if n := len(result.Trials()); n == 0 {
		t.Error("the result has no trial")
	}
	s.Return(t, s.Addresses[0])
	again := cfg
	again.Runner = &tune.Jobs{HostFile: j.HostFile, Address: j.Address, SSH: j.SSH, Launch: j.Launch, LaunchFlags: j.LaunchFlags, Logger: j.Logger}
	again.Resume, again.Observers = tune.ResumeAuto, nil
	for _, x := range mustRun(t, again).Trials() {
		if x.State != tune.Completed || len(x.Reports) != 4 || x.Failures[tune.UserCode] > 0 {
			t.Errorf("trial %d is %s with %d reports, failures %v: %s; want completed with 4", x.Number, x.State, len(x.Reports), x.Failures, x.Error)
		}
	}
}

// A host is added to a search and removed from it through the study's folder.
func TestASearchIsToldOfHosts(t *testing.T) {
	_, j, names, log := newHosts(t, "well", 2)
	withoutServers(j, "well")
	if err := os.WriteFile(j.HostFile, []byte(names[0]+" slots=1 gpus=0\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	cfg := jobsConfig(t, j)
	cfg.Space = tune.Space{tune.Grid("x", 1, 2, 3, 4)}
	var asking sync.WaitGroup
	ask := func(op, host, want string) {
		got, err := searchcontrol.Ask(t.Context(), cfg.Dir, searchcontrol.Request{Op: op, Host: host})
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s %s: got %q, %v, want %q", op, host, got, err, want)
		}
	}
	added := make(chan struct{})
	events := &atEvents{call: map[string]func(){
		"start 0": func() {
			asking.Go(func() {
				defer close(added)
				ask(searchcontrol.Hosts, "", names[0])
				ask(searchcontrol.Add, names[1]+" slots=1 gpus=0", names[1])
				if _, err := searchcontrol.Ask(t.Context(), cfg.Dir, searchcontrol.Request{Op: searchcontrol.Add, Host: names[1]}); err == nil || !strings.Contains(err.Error(), "has it already") {
					t.Errorf("added twice: got %v", err)
				}
				want := "remove host nobody: the search has no such host; it has " + names[0] + ", " + names[1]
				if _, err := searchcontrol.Ask(t.Context(), cfg.Dir, searchcontrol.Request{Op: searchcontrol.Remove, Host: "nobody"}); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("removed an unknown one: got %v, want %s", err, want)
				}
				ask(searchcontrol.Remove, names[0], "ready")
			})
		},
		"report 0": func() { <-added },
	}}
	cfg.Observers = []tune.Observer{events}
	result := mustRun(t, cfg)
	asking.Wait()
	if last := result.Trials()[3]; last.State != tune.Completed || last.Location != names[1] {
		t.Errorf("the last trial is %s on %s, want completed on %s, which was added\n%s", last.State, last.Location, names[1], log.String())
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, "control.json")); err == nil {
		t.Error("control.json is left")
	}
}
