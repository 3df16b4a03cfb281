package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/testing/pacedmodel"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// dividedTrial names the variable that makes a worker of an elastic trial of this program, which
// adapts its batch size. Its argument says when the trial ends: after three epochs, or after ten
// with two workers.
const dividedTrial = "TUNE_DIVIDED_TRIAL"

// errEnough ends a trial.
var errEnough = errors.New("enough")

func dividedWorker() int {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	two := 0
	err := pacedmodel.Train(ctx, pacedmodel.Config{
		Examples: 128, Epochs: 1 << 20, InitialBatch: 16, MaxBatch: 64, Seed: 1, Step: 2 * time.Millisecond, Example: 500 * time.Microsecond,
		Epoch: func(e worker.EpochInfo, rank, workers int) error {
			if rank == 0 {
				fmt.Printf("workers=%d step=%d\n", workers, e.Epoch+1)
			}
			if workers == 2 {
				two++
			}
			if os.Args[1] == "--until=three-epochs" && e.Epoch >= 2 || os.Args[1] == "--until=two-workers" && two == 10 {
				return errEnough
			}
			return nil
		},
	})
	if err != nil && !errors.Is(err, kvstore.ErrRemoved) && !errors.Is(err, errEnough) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// The trials of a command are elastic jobs that share the slots of this machine: when one ends
// another gets its slot, without a restart. The table has the batch and the goodput that the jobs
// tell.
func TestTuneDividesSlotsAmongTrials(t *testing.T) {
	takesLong(t)
	t.Parallel()
	needProc(t)
	cpus := len(affinity.Own())
	if cpus/max(cpus/2, 1) != 2 {
		t.Skipf("%d processors do not make two slots", cpus)
	}
	dir := t.TempDir()
	study := `name: divided
metric: workers
mode: max
command: [` + self(t) + `, "--until={until}"]
space: {until: {grid: [three-epochs, two-workers]}}
scheduler: {goodput: {max_replicas: 2, interval: 1s, reports_per_decision: 4}}
parallel: 2
resources: {cpus: ` + fmt.Sprint(cpus/2) + `}
launch_flags: [--env, ` + dividedTrial + `=1]
`
	if err := os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(study), 0o666); err != nil {
		t.Fatal(err)
	}
	out, errs := tuneIn(t, dir, 0, "study.yaml")
	wantText(t, "the output", out, `^divided: replicas: trial 0 local=1`, `^trial name +status +loc .* replicas +restarts +batch +goodput`,
		`^trial-000000 +COMPLETED +local`, `^trial-000001 +COMPLETED +local x2 .* 2 +0 +[1-9]\d +[1-9][\d.]*$`)
	replayed, _ := tuneIn(t, dir, 0, "replay", "runs/divided")
	if hashOf(t, replayed) != hashOf(t, out) {
		t.Errorf("the hash of the search and of its replay differ:\n%s%s", out, replayed)
	}
	why, _ := tuneIn(t, dir, 0, "why", "runs/divided", "1")
	wantText(t, "why", why, `1 replica \(local=1\) in place of no replicas: starts 1 replica on local.*; decided because trial 0 started`, `2 replicas \(local=2\) in place of `)
	csv, err := os.ReadFile(filepath.Join(dir, "runs/divided/trials.csv"))
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "trials.csv", string(csv), `^1,completed,two-workers,2,2,2,0,`)
	if t.Failed() {
		t.Log(errs)
	}
}
