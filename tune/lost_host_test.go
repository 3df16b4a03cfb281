package tune_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"github.com/paragon-train/paragon/tune"
)

// cutAt cuts the connections to a host when a trial first reports.
type cutAt struct {
	trial int
	cut   func()
	once  sync.Once
}

func (c *cutAt) Observe(_ tune.View, e tune.Event) {
	if e.Kind == tune.EventReport && e.Trial == c.trial {
		c.once.Do(c.cut)
	}
}

// A trial whose host is lost fails as such, is retried from its checkpoint, and the host is used
// again if it answers.
func TestATrialOnALostHostIsRetried(t *testing.T) {
	if testing.Short() {
		t.Skip("builds launch and starts processes")
	}
	s := sshtest.Start(t, 1)
	host := fmt.Sprintf("%s:%d", s.Addresses[0], s.Port)
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(host+" slots=1 gpus=0 cpus=1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv(kindVariable, "lost")
	var log syncBuffer
	j := &tune.Jobs{HostFile: file, Address: "127.0.0.1", SSH: strings.Join(s.Client, " "), Launch: launchProgram(t),
		LaunchFlags: []string{"--env", kindVariable}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	cfg := jobsConfig(t, j)
	cfg.Space = tune.Space{tune.Grid("x", 2)}
	cfg.Observers = []tune.Observer{&cutAt{trial: 0, cut: s.Cut}}
	x := mustRun(t, cfg).Trials()[0]
	if x.State != tune.Completed || x.Attempts != 2 || x.Failure != tune.NodeLost || x.Location != host || len(x.Reports) != 4 {
		t.Errorf("the trial is %s after %d attempts (%s: %s) on %s with %d reports, want completed after 2 (node lost) on %s with 4\n%s",
			x.State, x.Attempts, x.Failure, x.Error, x.Location, len(x.Reports), host, log.String())
	}
	if want := "lost host " + host + ": connection to " + host + " lost"; x.Error != want {
		t.Errorf("its error is %q, want %q", x.Error, want)
	}
}
