package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// testWorker is what this program does as the worker of a job: it pushes rank+1 into every element
// of a key and wants the sum over all workers back, for some rounds. The worker whose rank is in
// EXIT_RANK exits with 3 in the middle.
func testWorker() int {
	if err := pushAndPull(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func pushAndPull() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer kv.Close()
	const key, size, rounds = "weight", 100_000, 3
	value := make([]float32, size)
	if err := kv.Init(ctx, key, value); err != nil {
		return err
	}
	for i := range value {
		value[i] = float32(kv.Rank() + 1)
	}
	out := make([]float32, size)
	n := kv.NumWorkers()
	for round := range rounds {
		if err := kv.PushPull(ctx, key, [][]float32{value}, [][]float32{out}); err != nil {
			return err
		}
		for i, got := range out {
			if want := float32(n * (n + 1) / 2); got != want {
				return fmt.Errorf("round %d: element %d is %g, want %g", round, i, got, want)
			}
		}
		if os.Getenv("EXIT_RANK") == strconv.Itoa(kv.Rank()) {
			os.Exit(3)
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	fmt.Printf("rank %d of %d has its sums at %s in %s, V=%q\n", kv.Rank(), n, os.Getenv("DMLC_NODE_HOST"), dir, os.Getenv("V"))
	return kv.Barrier(ctx)
}

func wantSums(t *testing.T, l *launcher, workers int) {
	t.Helper()
	if code := l.exit(t); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	for rank := range workers {
		if want := fmt.Sprintf("worker %d  | rank %[1]d of %d has its sums at ", rank, workers); !strings.Contains(l.stdout.String(), want) {
			t.Errorf("stdout has no line %q", want)
		}
	}
	wantNoProcess(t, l.job(t), time.Now())
}

func TestWorkersGetTheirSumsOnThisMachine(t *testing.T) {
	needProc(t)
	for _, tc := range []struct{ workers, servers int }{{3, 2}} {
		l := startLauncher(t, "", "-n", strconv.Itoa(tc.workers), "-s", strconv.Itoa(tc.servers), "--", self(t))
		wantSums(t, l, tc.workers)
	}
}

func TestWorkersGetTheirSumsOnTwoHosts(t *testing.T) {
	t.Parallel()
	c := newHosts(t, 2)
	wantSums(t, c.launch(t, "-n", "2", "-s", "2", "--scheduler-host", c.Addresses[1]+":"+strconv.Itoa(c.Port),
		"--", self(t)), 2)
}

func TestWorkerThatExitsWith3EndsTheJobWith3(t *testing.T) {
	needProc(t)
	l := startLauncher(t, "", "-n", "3", "-s", "2", "--env", "EXIT_RANK=2", "--", self(t))
	if code := l.exit(t); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if want := "\nlaunch: worker 2 on localhost failed: exit 3\n"; !strings.HasSuffix(l.stderr.String(), want) {
		t.Errorf("stderr ends in %q, want %q", l.stderr.String(), want)
	}
	wantNoProcess(t, l.job(t), time.Now())
}

// A worker that ends without joining is named as soon as the others are seen to wait for it, not
// after the start timeout.
func TestWorkerThatNeverJoinsEndsTheJob(t *testing.T) {
	needProc(t)
	t.Parallel()
	l := startLauncher(t, "", "-n", "2", "-s", "1", "if [ $PARAGON_RANK = 0 ]; then exec "+self(t)+"; fi")
	if code := l.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if want := "launch: the job failed: worker 1 on localhost ended with exit 0 without joining"; !strings.Contains(l.stderr.String(), want) {
		t.Errorf("stderr %q, want %q", l.stderr.String(), want)
	}
	wantNoProcess(t, l.job(t), time.Now())
}

func TestInterruptEndsAJobThatIsStillForming(t *testing.T) {
	needProc(t)
	l := startLauncher(t, "", "-n", "2", "-s", "1",
		"if [ $PARAGON_RANK = 0 ]; then exec "+self(t)+"; fi; sleep 1000")
	job := l.job(t)
	l.await(t, "waiting for worker 1 on localhost") // named after some seconds
	at := time.Now()
	l.Process.Signal(syscall.SIGINT)
	if code := l.exit(t); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	wantNoProcess(t, job, at)
}
