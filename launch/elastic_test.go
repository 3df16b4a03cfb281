package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/kvstore"
)

// stopFile names the variable that makes an elastic worker of this program: it trains until the
// file is there.
const stopFile = "ELASTIC_STOP_FILE"

// wishOf names the variable with the number of workers that rank 0 wishes for.
const wishOf = "ELASTIC_WISH"

// elasticWorker pushes ones into a key and wants the number of workers back, step by step, and
// takes part in every change of the job, of which it prints a line.
func elasticWorker() int {
	err := trainUntilStopped()
	if errors.Is(err, kvstore.ErrRemoved) {
		fmt.Println("removed from the job")
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func trainUntilStopped() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, kvstore.ErrRemoved) {
			err = errors.Join(err, kv.Close())
			return
		}
		err = kvstore.Leave(kv, err)
	}()

	// flags has two values: a change is pending, and stop.
	const weight, flags = "weight", "flags"
	ones, sum := make([]float32, 1000), make([]float32, 1000)
	for i := range ones {
		ones[i] = 1
	}
	raised, seen := make([]float32, 2), make([]float32, 2)
	for key, n := range map[string]int{weight: len(ones), flags: 2} {
		if err := kv.Init(ctx, key, make([]float32, n)); err != nil {
			return err
		}
	}
	job := kv
	joins := job.Joining()
	if err := job.Ready(ctx); err != nil {
		return err
	}
	fmt.Printf("begins as %d of %d, joined %t\n", kv.Rank(), kv.NumWorkers(), joins)
	for step := uint64(1); ; step++ {
		if wish, _ := strconv.Atoi(os.Getenv(wishOf)); wish > 0 && kv.Rank() == 0 {
			least, most := kv.WorkerRange()
			text, err := control.EncodeAdaptation(control.Adaptation{Step: step, Workers: kv.NumWorkers(), LocalBatch: 1, GlobalBatch: kv.NumWorkers(), InitialBatch: 2,
				WishedWorkers: wish, WishReason: fmt.Sprintf("%d to %d may be", least, most)})
			if err == nil {
				err = kv.ReportAdaptation(text)
			}
			if err != nil {
				return err
			}
		}
		raised[0], raised[1] = 0, 0
		if job.Pending() != 0 {
			raised[0] = 1
		}
		if _, err := os.Stat(os.Getenv(stopFile)); err == nil {
			raised[1] = 1
		}
		if err := kv.PushPull(ctx, weight, [][]float32{ones}, [][]float32{sum}); err != nil {
			return err
		}
		if err := kv.PushPull(ctx, flags, [][]float32{raised}, [][]float32{seen}); err != nil {
			return err
		}
		// A lost worker is missing from the sum before the number of workers says so.
		if sum[0] != sum[len(sum)-1] || int(sum[0]) > kv.NumWorkers() || sum[0] < 1 {
			return fmt.Errorf("step %d: the sums are %g to %g, want up to %d", step, sum[0], sum[len(sum)-1], kv.NumWorkers())
		}
		if seen[1] > 0 {
			fmt.Printf("done as %d of %d\n", kv.Rank(), kv.NumWorkers())
			return nil
		}
		if seen[0] > 0 {
			// Another worker may have heard of it before.
			change, err := job.AwaitPending(ctx)
			if err != nil {
				return err
			}
			if err := job.Arrive(ctx, kvstore.Arrival{Change: change, Steps: step}); err != nil {
				return err
			}
			fmt.Printf("goes on as %d of %d\n", kv.Rank(), kv.NumWorkers())
		}
		time.Sleep(2 * time.Millisecond) // a step's work
		job.ReportStep(kvstore.StepReport{Examples: 2, Total: 2 * time.Millisecond, Loss: 1 / float64(step), LearningRate: math.NaN(), GradientNorm: math.NaN()})
	}
}

// An elasticJob is a job of elastic workers on this machine.
type elasticJob struct {
	*launcher
	dir, stop string
}

// startElastic starts a job of two workers on localhost, in a folder of its own.
func startElastic(t *testing.T, flags ...string) *elasticJob {
	t.Helper()
	needProc(t)
	j := &elasticJob{dir: t.TempDir()}
	j.stop = filepath.Join(t.TempDir(), "stop")
	args := append([]string{"-n", "2", "-s", "1", "--env", stopFile + "=" + j.stop, "--elastic-training-enabled"}, flags...)
	j.launcher = startLauncher(t, j.dir, append(args, "--", self(t))...)
	j.await(t, "begins as 0 of 2, joined false")
	j.await(t, "begins as 1 of 2, joined false")
	return j
}

func (j *elasticJob) edit(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, "host_worker"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// finish ends the training, and wants it to have been well.
func (j *elasticJob) finish(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(j.stop, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code := j.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	wantNoProcess(t, j.job(t), time.Now())
}

func (j *elasticJob) wantOutput(t *testing.T, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(j.stdout.String()+j.stderr.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
}

// wantLog wants the lines of host_worker_log, with # for the time.
func (j *elasticJob) wantLog(t *testing.T, want string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(j.dir, "host_worker_log"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixNano()
	got := regexp.MustCompile(`(?m) (\d{19})$`).ReplaceAllStringFunc(string(b), func(s string) string {
		if at, err := strconv.ParseInt(s[1:], 10, 64); err != nil || at > now || at < now-int64(10*time.Minute) {
			t.Errorf("host_worker_log has the time%s, now it is %d", s, now)
		}
		return " #"
	})
	if got != want {
		t.Errorf("host_worker_log is\n%swant\n%s", got, want)
	}
}

// worker finds the process of the job's worker of that number, as launch counts them.
func (j *elasticJob) worker(t *testing.T, number int) int {
	t.Helper()
	return j.process(t, "worker", number)
}

func (j *elasticJob) process(t *testing.T, role string, number int) int {
	t.Helper()
	for _, pid := range processesOf(j.job(t), "") {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		env := "\x00" + string(b)
		if strings.Contains(env, "\x00DMLC_ROLE="+role+"\x00") && strings.Contains(env, fmt.Sprintf("\x00DMLC_TASK_ID=%d\x00", number)) {
			return pid
		}
	}
	t.Fatalf("no %s %d runs", role, number)
	return 0
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// The script of operators: an edit of host_worker adds a host, replaces it by another one, and
// removes that.
func TestEditsOfHostWorkerChangeARunningJob(t *testing.T) {
	takesLong(t)
	t.Parallel()
	j := startElastic(t)
	path, err := filepath.EvalSymlinks(j.dir)
	if err != nil {
		t.Fatal(err)
	}
	j.wantOutput(t, "Created worker host file "+path+"/host_worker\n", "Created worker host log file "+path+"/host_worker_log\n",
		"Launching server node at ip: localhost\n", "Launching worker node at ip: localhost\n")
	j.edit(t, "localhost slots=2\n\n# one more\n127.0.0.2\n")
	j.await(t, "worker 2  | begins as 2 of 3, joined true")
	j.await(t, "worker 0  | goes on as 0 of 3")
	j.edit(t, "127.0.0.3\nlocalhost slots=2\n")
	j.awaitTimes(t, "| begins as 2 of 3, joined true", 2)
	j.await(t, "worker 2  | removed from the job")
	j.edit(t, "localhost slots=2\n")

	// Its rank was that of the one that it replaced.
	j.awaitTimes(t, "worker 2  | removed from the job", 2)
	j.await(t, "worker 1  | goes on as 1 of 2")
	j.finish(t)
	j.wantOutput(t, "Launching new worker jobs: on 127.0.0.2\n", "Launching new worker jobs: on 127.0.0.3\n", "exit 0, removed")
	b, _ := os.ReadFile(filepath.Join(j.dir, "host_worker_log"))
	if first := "0 ADDED 127.0.0.2 "; !strings.HasPrefix(string(b), first) {
		t.Errorf("host_worker_log begins with %q, want %q", b, first)
	}
	// The replaced host leaves at the next step, the new one comes when it is ready.
	j.wantLog(t, "0 ADDED 127.0.0.2 #\n1 REMOVED 127.0.0.2 #\n2 ADDED 127.0.0.3 #\n3 REMOVED 127.0.0.3 #\n")
}

func TestKilledWorkerIsLostAndComesAgain(t *testing.T) {
	t.Parallel()
	j := startElastic(t)
	kill(t, j.worker(t, 1))
	j.await(t, "worker 0  | goes on as 0 of 1")
	j.await(t, "| begins as 1 of 2, joined true")
	j.finish(t)
	j.wantOutput(t, "worker 1 on localhost was lost", "signal 9 (killed), lost, the job went on")

	// The host had another worker all the time.
	j.wantLog(t, "")
}

func TestLostHostIsLogged(t *testing.T) {
	t.Parallel()
	j := startElastic(t, "--rejoin", "0")
	j.edit(t, "localhost slots=2\n127.0.0.2\n")
	j.await(t, "worker 2  | begins as 2 of 3")
	kill(t, j.worker(t, 2))
	j.await(t, "worker 0  | goes on as 0 of 2")
	j.finish(t)
	j.wantLog(t, "0 ADDED 127.0.0.2 #\n1 REMOVED 127.0.0.2 #\n")
}

func TestKilledSchedulerIsStartedAgainAndTheJobGoesOn(t *testing.T) {
	t.Parallel()
	j := startElastic(t)
	for range 2 {
		kill(t, j.process(t, "scheduler", 0))
		j.await(t, "scheduler on localhost listens again at ")
	}
	j.edit(t, "localhost slots=2\n127.0.0.2\n") // it still decides
	j.await(t, "worker 2  | begins as 2 of 3, joined true")
	j.finish(t)
	j.wantLog(t, "0 ADDED 127.0.0.2 #\n")
	j.wantOutput(t, "signal 9 (killed), started again")
}

func TestKilledServerIsReplacedWhereThereAreBackups(t *testing.T) {
	t.Parallel()
	j := startElastic(t, "-s", "3", "--backups", "1")
	kill(t, j.process(t, "server", 1))
	j.await(t, "starting another server")
	j.awaitTimes(t, "INFO joined role=server rank=1 ", 2)
	j.edit(t, "localhost slots=2\n127.0.0.2\n") // workers find the new one
	j.await(t, "worker 2  | begins as 2 of 3, joined true")
	j.finish(t)
	j.wantOutput(t, "signal 9 (killed), lost, its backups took over")
}

// Servers come and go while workers train: more than there were at the start, and one that the job
// began with leaves. One that was added is replaced as the others are when it is killed.
func TestServersComeAndGoAsAsked(t *testing.T) {
	t.Parallel()
	j := startElastic(t, "-s", "2", "--backups", "1")
	j.wantCtl(t, 0, `^server 2 on localhost ADDED\n$`, "add-server", "--wait")
	j.wantCtl(t, 1, "server 3 could not be added: host 10.9.9.9 is not this machine", "add-server", "--wait", "10.9.9.9")
	j.wantCtl(t, 0, `^server 3 on 127\.0\.0\.2 ADDED\n$`, "add-server", "--wait", "127.0.0.2")
	j.wantCtl(t, 0, `(?m)^3 +127\.0\.0\.2 +in the job +\d+ +\d+ +\d+ +\d+$`, "status")
	j.wantCtl(t, 0, `^server 0 REMOVED\n$`, "remove-server", "0")
	j.wantCtl(t, 1, "there is no server 0", "remove-server", "0")
	j.wantCtl(t, 0, `^server 1 REMOVED\n$`, "remove-server", "1")
	kill(t, j.process(t, "server", 2))
	j.await(t, "starting another server 2 on localhost")
	j.awaitTimes(t, "INFO joined role=server rank=2 ", 2)
	j.wantCtl(t, 0, `(?m)^0 +localhost +removed `, "status")
	j.edit(t, "localhost slots=2\n127.0.0.2\n") // workers find the servers
	j.await(t, "worker 2  | begins as 2 of 3, joined true")
	j.finish(t)
	j.wantOutput(t, `server 0 on localhost was removed from the job`)
	j.wantOutput(t, "exit 0, removed")
	j.wantOutput(t, "signal 9 (killed), lost, its backups took over")
}

func TestServersCanNotComeOrGoWithoutBackups(t *testing.T) {
	t.Parallel()
	j := startElastic(t)
	j.wantCtl(t, 1, "servers can be added only where shards have backups: start the job with --backups 1", "add-server")
	j.wantCtl(t, 1, "servers can be removed only where shards have backups: start the job with --backups 1", "remove-server", "0")
	j.wantCtl(t, 2, `got "first", want a server's rank`, "remove-server", "first")
	j.finish(t)
}

// Without backups the loss of a server ends the job, which begins again on the hosts that it had
// last.
func TestJobThatLostItsServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	j := startElastic(t, "--restarts", "1")
	j.edit(t, "localhost slots=2\n127.0.0.2\n")
	j.await(t, "worker 2  | begins as 2 of 3, joined true")
	kill(t, j.process(t, "server", 0))
	j.await(t, "(restart 1 of 1)")
	j.await(t, "begins as 2 of 3, joined false")
	j.finish(t)
	j.wantLog(t, "0 ADDED 127.0.0.2 #\n")
}

func TestHostWhosePreparationFailsDoesNotJoin(t *testing.T) {
	t.Parallel()
	j := startElastic(t, "--prepare-data", "echo prepares; test $DMLC_NODE_HOST != 127.0.0.2 || { echo no room >&2; exit 4; }")
	j.edit(t, "localhost slots=2\n127.0.0.2\n127.0.0.3\n")
	j.await(t, "host 127.0.0.2 could not join: prepare-data: exit 4: no room")
	j.await(t, "begins as 2 of 3, joined true")
	j.finish(t)
	j.wantOutput(t, "prepare 127.0.0.3 | prepares\n")
	j.wantLog(t, "0 ADDED 127.0.0.3 #\n")
}

// Everybody may leave but the last --min-workers.
func TestRemovalOfTooManyIsRefused(t *testing.T) {
	t.Parallel()
	j := startElastic(t)
	j.edit(t, "127.0.0.2\n")
	j.await(t, "remove localhost: refused: ")
	j.await(t, "worker 2  | begins as 2 of 3, joined true")
	j.edit(t, "localhost\n127.0.0.2\n")
	j.edit(t, "127.0.0.2\n")
	j.finish(t)
}

func TestKilledLauncherOfAnElasticJobLeavesNothing(t *testing.T) {
	t.Parallel()
	j := startElastic(t)
	j.edit(t, "localhost slots=2\n127.0.0.2\n")
	j.await(t, "worker 2  | begins as 2 of 3")
	job, at := j.job(t), time.Now()
	j.Process.Kill()
	wantNoProcess(t, job, at)
}

// A job that failed is started again, and its workers are told.
func TestFailedJobIsStartedAgain(t *testing.T) {
	t.Parallel()
	needProc(t)
	mark := filepath.Join(t.TempDir(), "mark")
	script := "echo resume=$PARAGON_RESUME; if [ -e " + mark + " ]; then exec " + self(t) + "; fi; echo > " + mark + "; exit 3"
	l := startLauncher(t, t.TempDir(), "-n", "1", "--restarts", "2", script)
	if code := l.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for _, want := range []string{"resume=\n", "resume=1\n", "(restart 1 of 2)"} {
		if !strings.Contains(l.stdout.String()+l.stderr.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
	l = startLauncher(t, t.TempDir(), "-n", "1", "--restarts", "1", "exit 5")
	if code := l.exit(t); code != 5 {
		t.Errorf("a job that always fails: exit code %d, want 5", code)
	}
}
