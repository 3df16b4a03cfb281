package tune_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
	"github.com/paragon-train/paragon/tune/schedule"
)

// elasticHosts are two hosts with the same number of slots each, over ssh, on which a search of
// elastic trials runs.
type elasticHosts struct {
	t            *testing.T
	s            *sshtest.Server
	jobs         *tune.Jobs
	names, lines []string
	log          syncBuffer
}

// newElasticHosts starts them; the search begins with the first ones. Trials do what kind says.
func newElasticHosts(t *testing.T, kind string, first, slots int) *elasticHosts {
	t.Helper()
	if testing.Short() {
		t.Skip("builds launch and starts processes")
	}
	s := sshtest.Start(t, 2)
	h := &elasticHosts{t: t, s: s}
	for _, a := range s.Addresses {
		h.names = append(h.names, fmt.Sprintf("%s:%d", a, s.Port))
		h.lines = append(h.lines, fmt.Sprintf("%s:%d slots=%d gpus=0", a, s.Port, slots))
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(strings.Join(h.lines[:first], "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv(kindVariable, kind)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	h.jobs = &tune.Jobs{HostFile: file, Address: "127.0.0.1", SSH: strings.Join(s.Client, " "), Launch: launchProgram(t),
		LaunchFlags: []string{"--env", kindVariable, "--env", "GOMAXPROCS=1"}, Logger: slog.New(slog.NewTextHandler(&h.log, nil))}
	return h
}

// config is that of a search of one or two trials.
func (h *elasticHosts) config(trials int) tune.Config {
	cfg := jobsConfig(h.t, h.jobs)
	cfg.Space, cfg.Logger = tune.Space{tune.Grid("x", []any{1, 2}[:trials]...)}, h.jobs.Logger
	cfg.Scheduler = h.goodput()
	h.t.Cleanup(func() {
		if h.t.Failed() {
			b, _ := os.ReadFile(filepath.Join(cfg.Dir, "log.jsonl"))
			h.t.Logf("%s\n%s", h.log.String(), b[:min(len(b), 1<<16)])
		}
	})
	return cfg
}

// goodput takes changes to be cheap: the trials of a test are young.
func (h *elasticHosts) goodput() *schedule.Goodput {
	return &schedule.Goodput{Interval: 2 * time.Second, ReportsPerDecision: 8, ChangeCost: 50 * time.Millisecond}
}

// wantLost checks that a decision was made because a host was lost, and that it is not among the
// nodes from then on, unless it is back.
func (h *elasticHosts) wantLost(cfg tune.Config, host int) {
	h.t.Helper()
	lost, gone := false, false
	err := tune.ReadLog(cfg.Dir, func(e tune.Event) error {
		if e.Kind != tune.EventAllocate {
			return nil
		}
		if strings.Contains(e.Rule, "host "+h.names[host]+" was lost") {
			lost, gone = true, true
		}
		if strings.Contains(e.Rule, "host "+h.names[host]+" is back") {
			gone = false
		}
		if there := slices.ContainsFunc(e.Nodes, func(n jobs.NodeSlots) bool { return n.Node == h.names[host] }); gone && there {
			h.t.Errorf("event %d: the nodes are %v after %s was lost", e.Seq, e.Nodes, h.names[host])
		}
		return nil
	})
	if err != nil || !lost {
		h.t.Errorf("%v; the log has no decision because %s was lost", err, h.names[host])
	}
}

// replays checks that the log of a search recomputes its decisions.
func (h *elasticHosts) replays(cfg tune.Config, result *tune.Result, pruners ...tune.Pruner) {
	h.t.Helper()
	cfg.Runner, cfg.Observers, cfg.Scheduler, cfg.Pruners = nil, nil, h.goodput(), pruners
	replayed, err := tune.Replay(cfg.Dir, cfg)
	if err != nil || replayed.DecisionHash != result.DecisionHash() {
		h.t.Errorf("replayed to hash %s (%v), want %s", replayed.DecisionHash, err, result.DecisionHash())
	}
}
