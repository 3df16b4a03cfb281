package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"github.com/paragon-train/paragon/internal/testing/countmodel"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// fitDir names the variable that makes a worker of this program one that trains with worker.Fit,
// with checkpoints in that folder. It leaves the job, or stops it, when it gets SIGTERM.
const fitDir = "FIT_CHECKPOINTS"

const fitEpochs = 4

// noFolder in fitDir stands for none.
const noFolder = "none"

func fitFolder() string {
	if dir := os.Getenv(fitDir); dir != noFolder {
		return dir
	}
	return ""
}

// fitFast names a variable with the path of a file: until it is there workers are slow, and they
// train for more epochs.
const fitFast = "FIT_FAST"

// Further variables of such a worker.
const (
	// fitExamples is how many there are; none: 400.
	fitExamples = "FIT_EXAMPLES"

	// fitSave asks for a checkpoint after every so many steps.
	fitSave = "FIT_SAVE"

	// fitFinal is "flag", or the path of a file that it needs: what it finds wrong before it joins.
	fitFinal = "FIT_FINAL"

	// fitDies is the path of a file. A worker that finds none there makes one and kills itself:
	// before Fit, or with fitSave after the first checkpoint.
	fitDies = "FIT_DIES"
)

// fitSetting is the number in a variable.
func fitSetting(name string, none int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return none
}

// fitDie kills this process, the first time.
func fitDie() {
	mark := os.Getenv(fitDies)
	if _, err := os.Stat(mark); mark == "" || err == nil {
		return
	}
	if err := os.WriteFile(mark, nil, 0o644); err == nil {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// fitReady is what the program checks before it joins the job.
func fitReady() error {
	switch what := os.Getenv(fitFinal); what {
	case "":
		return nil
	case "flag":
		return kvstore.Final(errors.New("--epochs is 0, want at least 1"))
	default:
		f, err := os.Open(what)
		if err != nil {
			return kvstore.Final(err)
		}
		return f.Close()
	}
}

// fitWorker counts with its parameters how often each example is used.
func fitWorker() int {
	switch err := fit(); {
	case errors.Is(err, worker.ErrRemoved):
		fmt.Println("left the job")
	case errors.Is(err, worker.ErrCheckpointed):
		fmt.Println("stopped with a checkpoint")
	case errors.Is(err, worker.ErrStopped):
		fmt.Println("stopped")
		return 143
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func fit() (err error) {
	ctx := context.Background()
	term, forget := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer forget()
	if err := fitReady(); err != nil {
		return err
	}
	kv, err := kvstore.Create(ctx, "dist_sync", kvstore.WithTimeout(patience))
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, worker.ErrRemoved) || errors.Is(err, worker.ErrStopped) {
			err = errors.Join(err, kv.Close())
			return
		}
		err = kvstore.Leave(kv, err)
	}()
	program, err := countmodel.Compile(fitSetting(fitExamples, 400))
	if err != nil {
		return err
	}
	defer program.Close()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: countmodel.Optimizer})
	if err != nil {
		return err
	}
	defer trainer.Close()
	feed, err := countmodel.NewFeed(program, 5, kv.NumWorkers(), kv.Rank(), 7)
	if err != nil {
		return err
	}
	epochs, fast := fitEpochs, os.Getenv(fitFast)
	if fast != "" {
		epochs = 5 * fitEpochs
	}
	feed.Before = func(context.Context) error {
		if _, err := os.Stat(fast); fast == "" || err != nil {
			time.Sleep(30 * time.Millisecond) // a step's work
		}
		return nil
	}
	if os.Getenv(fitSave) == "" {
		fitDie()
	} else {
		before := feed.Before
		feed.Before = func(ctx context.Context) error {
			if saved, _ := filepath.Glob(filepath.Join(fitFolder(), "step-*", "complete.json")); len(saved) > 0 {
				fitDie()
			}
			return before(ctx)
		}
	}
	if _, err = worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Epochs: epochs, Leave: term.Done(), Observers: []worker.Observer{stepPrinter{}},
		Checkpoint: worker.CheckpointConfig{Dir: fitFolder(), EverySteps: fitSetting(fitSave, 0), EveryEpochs: 1000, Resume: fitFolder() != "" && os.Getenv("PARAGON_RESUME") != ""},
	}); err != nil {
		return err
	}
	lost, doubled := 0, 0
	for _, n := range countmodel.Counts(program) {
		lost, doubled = lost+max(0, epochs-n), doubled+max(0, n-epochs)
	}
	fmt.Printf("done as %d of %d: examples lost %d, doubled %d\n", kv.Rank(), kv.NumWorkers(), lost, doubled)
	return nil
}

// A stepPrinter prints each step, so that a test knows how far a worker is.
type stepPrinter struct{}

func (stepPrinter) Begin(worker.Run)       {}
func (stepPrinter) Step(s worker.StepInfo) { fmt.Printf("step %d of epoch %d\n", s.Step, s.Epoch) }
func (stepPrinter) Epoch(worker.EpochInfo) {}
func (stepPrinter) End()                   {}

// A fitJob is a job of workers that train with Fit, on this machine.
type fitJob struct {
	*elasticJob
	checkpoints string
}

func startFit(t *testing.T, flags ...string) *fitJob {
	t.Helper()
	needProc(t)
	j := &fitJob{&elasticJob{dir: t.TempDir()}, t.TempDir()}
	args := append([]string{"-n", "3", "-s", "1", "--env", fitDir + "=" + j.checkpoints}, flags...)
	j.launcher = startLauncher(t, j.dir, append(args, "--", self(t))...)
	j.await(t, "step 4 of epoch 0")
	return j
}

// term sends a worker SIGTERM, as whoever takes its machine away does.
func (j *fitJob) term(t *testing.T, number int) {
	t.Helper()
	if err := syscall.Kill(j.worker(t, number), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// end waits for the end of the job and wants its exit code, and so many workers to be done with
// every example used as often as there are epochs.
func (j *fitJob) end(t *testing.T, code, done int) {
	t.Helper()
	if got := j.exit(t); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	if n := strings.Count(j.stdout.String(), ": examples lost 0, doubled 0\n"); n != done {
		t.Errorf("%d workers were done with each example used once an epoch, want %d", n, done)
	}
	wantNoProcess(t, j.job(t), time.Now())
}

// wantCheckpoint wants one that is complete, with a part of each of so many workers; 0: none.
func (j *fitJob) wantCheckpoint(t *testing.T, workers int) {
	t.Helper()
	complete, _ := filepath.Glob(filepath.Join(j.checkpoints, "step-*", "complete.json"))
	parts, _ := filepath.Glob(filepath.Join(j.checkpoints, "step-*", "worker-*.safetensors"))
	if len(complete) != min(workers, 1) || len(parts) != workers {
		t.Errorf("got %d complete checkpoints and parts of %d workers, want %d and %d", len(complete), len(parts), min(workers, 1), workers)
	}
}

// One process of an elastic job gets SIGTERM: it drains and leaves, and the others use the examples
// that it has not used.
func TestAWorkerThatGetsSIGTERMLeavesTheJob(t *testing.T) {
	t.Parallel()
	j := startFit(t, "--elastic-training-enabled")
	j.term(t, 1)
	j.await(t, "worker 1  | left the job")
	j.end(t, 0, 2)
	j.wantOutput(t, "done as 0 of 2", "done as 1 of 2", "exit 0, removed", "host localhost lets a worker leave at its next step: worker 1 on localhost asks to leave: it was told to end")
	if strings.Contains(j.stderr.String(), "was lost") {
		t.Error("the launcher says that a worker was lost")
	}
	j.wantLog(t, "") // the host has other workers
}

// All processes of a host get it: the host leaves, and is named no more.
func TestAHostWhoseWorkersGetSIGTERMLeavesTheJob(t *testing.T) {
	t.Parallel()
	j := startFit(t, "--elastic-training-enabled")
	j.edit(t, "localhost slots=3\n127.0.0.2 slots=2\n")
	j.await(t, "worker 3  | step ")
	j.await(t, "worker 4  | step ")
	j.term(t, 4)
	j.term(t, 3)

	// Whoever goes last may have another rank by then.
	j.awaitTimes(t, "| left the job", 2)
	j.end(t, 0, 3)
	j.wantLog(t, "0 ADDED 127.0.0.2 #\n1 REMOVED 127.0.0.2 #\n")
	if b, err := os.ReadFile(filepath.Join(j.dir, "host_worker")); err != nil || strings.Contains(string(b), "127.0.0.2") {
		t.Errorf("host_worker is %q, %v, want no line of 127.0.0.2", b, err)
	}
}

// A host that ssh reaches is taken away: its agent gets SIGTERM, and on a shutdown all its
// processes do. The host leaves cleanly.
func TestAHostThatIsTakenAwayLeavesTheJob(t *testing.T) {
	t.Parallel()
	for name, all := range map[string]bool{"all processes": true, "the agent": false} {
		t.Run(name, func(t *testing.T) {
			if !all {
				takesLong(t)
			}
			t.Parallel()
			testHostTakenAway(t, all)
		})
	}
}

func testHostTakenAway(t *testing.T, all bool) {
	needProc(t)
	s := sshtest.Start(t, 2)
	j := &fitJob{&elasticJob{dir: t.TempDir()}, t.TempDir()}
	if err := os.WriteFile(filepath.Join(j.dir, "hosts"), []byte(j.host(s, 0)+"\n"+j.host(s, 1)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	j.launcher = startLauncher(t, j.dir, "-H", "hosts", "--ssh-command", strings.Join(s.Client, " "), "-n", "4", "-s", "1", "--elastic-training-enabled",
		"--env", fitDir+"="+j.checkpoints, "--", self(t))
	j.await(t, "step 4 of epoch 0")
	var agent int
	for _, number := range []int{1, 3} { // of the second host
		pid := j.worker(t, number)
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(stat[strings.LastIndex(string(stat), ")")+4:]), "%d", &agent); err != nil {
			t.Fatalf("%s: %v", stat, err)
		}
		if !all {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	// The agent may have ended with its last worker.
	if err := syscall.Kill(agent, syscall.SIGTERM); err != nil && (!all || !errors.Is(err, syscall.ESRCH)) {
		t.Fatal(err)
	}

	// Whoever goes last may have another rank by then.
	j.awaitTimes(t, "| left the job", 2)
	j.end(t, 0, 2)
	j.wantLog(t, fmt.Sprintf("0 REMOVED %s #\n", j.host(s, 1)))
	if strings.Contains(j.stderr.String(), "was lost") {
		t.Error("the launcher says that a worker was lost")
	}
}

// The job does not go on without the worker that gets SIGTERM: all stop at once, with a checkpoint.
func TestAJobThatNeedsTheWorkerThatGetsSIGTERMStops(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--elastic-training-enabled", "--min-workers", "3"}, {}} {
		j := startFit(t, flags...)
		at := time.Now()
		j.term(t, 1)
		j.end(t, 143, 0)

		// This is far less than the launcher waits for a worker that might join.
		if took := time.Since(at); took > 8*time.Second {
			t.Errorf("%q: the job ended %s after the signal", flags, took)
		}
		if n := strings.Count(j.stdout.String(), "| stopped\n"); n != 3 {
			t.Errorf("%q: %d workers stopped, want 3", flags, n)
		}
		j.wantOutput(t, "got SIGTERM from outside the launcher", "exit 143, got SIGTERM from outside the launcher")
		j.wantCheckpoint(t, 3)
	}
}

// An interrupted launcher stops an elastic job as it stops any other: all together, with a
// checkpoint of all.
func TestAnInterruptStopsAnElasticJobTogether(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		j := startFit(t, "--elastic-training-enabled")
		j.Process.Signal(tc.signal)
		j.end(t, tc.code, 0)
		if out := j.stdout.String(); strings.Count(out, "| stopped\n") != 3 || strings.Contains(out, "left the job") {
			t.Errorf("%s: want all three workers to stop and none to leave", tc.signal)
		}
		j.wantOutput(t, "the whole job is being stopped")
		j.wantCheckpoint(t, 3)
	}
}
