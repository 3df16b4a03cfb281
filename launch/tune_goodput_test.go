package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/affinity"
	"github.com/paragon-train/paragon/kvstore"
)

// dividedTrial names the variable that makes a worker of an elastic trial of this program. Its argument says when the trial ends: after three epochs, or
// when it has two workers.
const dividedTrial = "TUNE_DIVIDED_TRIAL"

func dividedWorker() int {
	if err := trainDivided(); err != nil && !errors.Is(err, kvstore.ErrRemoved) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func trainDivided() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	weight := make([]float32, 8)
	if err := kv.Init(ctx, "weight", weight); err != nil {
		return err
	}
	examples, err := kvstore.NewElasticSampler(ctx, kv, kvstore.SamplerConfig{Examples: 32, Batch: 4, Epochs: 1 << 20})
	if err != nil {
		return err
	}
	for epoch := range examples.Epochs() {
		for batch := range examples.Batches(ctx) {
			time.Sleep(time.Duration(len(batch)) * time.Millisecond) // the work
			if err := examples.Pusher().PushPull(ctx, "weight", [][]float32{weight}, [][]float32{weight}); err != nil {
				return err
			}
		}
		if examples.Err() != nil {
			break
		}
		if kv.Rank() == 0 {
			fmt.Printf("workers=%d step=%d\n", kv.NumWorkers(), epoch+1)
		}
		if os.Args[1] == "--until=three-epochs" && epoch >= 2 || os.Args[1] == "--until=two-workers" && kv.NumWorkers() == 2 {
			return nil
		}
	}
	return examples.Err()
}

// The trials of a command are elastic jobs that share the slots of this machine: when one ends another gets its slot, without a restart.
func TestTuneDividesSlotsAmongTrials(t *testing.T) {
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
		`^trial-000000 +COMPLETED +local`, `^trial-000001 +COMPLETED +local x2 .* 2 +0$`)
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
