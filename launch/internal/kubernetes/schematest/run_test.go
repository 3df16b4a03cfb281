package schematest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

func TestMain(m *testing.M) {
	// It compares versions of objects, which the API server in memory does not have.
	if err := utilfeature.DefaultMutableFeatureGate.Set("StaleControllerConsistencyJob=false"); err != nil {
		panic(err)
	}
	folder, err := os.MkdirTemp("", "schematest-")
	if err != nil {
		panic(err)
	}
	programs = folder
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// programs is the folder of launch and countjob, which the first test that needs them builds.
var (
	programs string
	building sync.Once
)

// runningJob is a job whose pods are processes of this machine.
type runningJob struct {
	*cluster
	k *kubelet

	// finish is the file with which countjob ends soon.
	finish string

	begin                       time.Time
	scheduler, servers, workers *batchv1.Job
}

// startJob renders a job named job with launch k8s, and applies it.
func startJob(t *testing.T, flags []string, command ...string) *runningJob {
	t.Helper()
	building.Do(func() { build(t, programs, "./launch", "./internal/testing/countjob") })
	dir := t.TempDir()
	j := &runningJob{cluster: newCluster(t), finish: filepath.Join(dir, "finish")}
	t.Cleanup(j.end)
	if command == nil {
		command = []string{"/programs/countjob", "--checkpoints", "/checkpoints/job", "--finish", j.finish}
	}
	args := []string{"k8s", "render", "--image", "train:1", "--name", "job", "--secret-file", filepath.Join(dir, "secret"), "--stop-timeout", "20s", "--status-listen", "off"}
	args = append(append(append(args, flags...), "--"), command...)
	render := exec.Command(filepath.Join(programs, "launch"), args...)
	var stderr strings.Builder
	render.Stderr = &stderr
	text, err := render.Output()
	if err != nil {
		t.Fatalf("render: %v: %s", err, stderr.String())
	}
	objects := parse(t, text)
	secret := filepath.Join(dir, "mounted")
	data := find(t, objects, "Secret", "job-secret")["stringData"].(map[string]any)["secret"].(string)
	if err := os.WriteFile(secret, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	j.k = startKubelet(t, j.cluster, programs, strings.NewReplacer("/etc/paragon/secret/secret", secret, "job-scheduler-0.job:7077", "127.0.0.1:"+port,
		":7077", "127.0.0.1:"+port, "/checkpoints", dir, "/programs", programs))
	j.begin = time.Now()
	for name, job := range map[string]**batchv1.Job{"job-scheduler": &j.scheduler, "job-servers": &j.servers, "job-workers": &j.workers} {
		*job = jobOf(t, find(t, objects, "Job", name))
		j.apply(*job)
	}
	t.Cleanup(func() {
		if t.Failed() {
			j.k.dump()
		}
	})
	return j
}

// note logs when something was seen.
func (j *runningJob) note(what string) {
	j.t.Helper()
	j.t.Logf("%5.1f s: %s", time.Since(j.begin).Seconds(), what)
}

// train waits until so many workers train.
func (j *runningJob) train(workers int) {
	j.t.Helper()
	text := fmt.Sprintf("workers %d", workers)
	await(j.t, text+" in the log of the scheduler's pod", func() bool {
		p := j.pods(j.scheduler)
		if len(p) != 1 || j.k.container(p[0]) == nil {
			return false
		}
		lines := strings.Split(strings.TrimSpace(j.k.container(p[0]).output.String()), "\n")
		return strings.Contains(strings.Join(lines[max(0, len(lines)-3):], "\n"), text)
	})
}

// saves waits until the job has written another checkpoint.
func (j *runningJob) saves() {
	j.t.Helper()
	written := func() (n int) {
		for _, text := range j.outputs() {
			n += strings.Count(text, "checkpoint written")
		}
		return n
	}
	before := written()
	await(j.t, "another checkpoint", func() bool { return written() > before })
}

// ends waits until a pod's process has ended, and checks its exit code.
func (j *runningJob) ends(pod *v1.Pod, code int) {
	j.t.Helper()
	p := j.k.container(pod)
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		j.t.Fatalf("%s has not ended", pod.Name)
	}
	await(j.t, "the status of "+pod.Name, func() bool {
		now, err := j.get(pod.Namespace, pod.Name)
		return err != nil || ended(now)
	})
	if now, err := j.get(pod.Namespace, pod.Name); err == nil {
		if got := int(now.Status.ContainerStatuses[0].State.Terminated.ExitCode); got != code {
			j.t.Errorf("%s exits with %d, want %d", pod.Name, got, code)
		}
	}
}

// replaced waits for another pod of the same Job and index.
func (j *runningJob) replaced(like *batchv1.Job, pod *v1.Pod) {
	j.t.Helper()
	await(j.t, "a replacement of "+pod.Name, func() bool {
		for _, p := range j.pods(like) {
			if index(p) == index(pod) && p.UID != pod.UID {
				return true
			}
		}
		return false
	})
}

// complete lets the job end, and checks what is left: all Jobs are complete, both workers say that
// each example was used once in each epoch, the training began once, and no process runs.
func (j *runningJob) complete() {
	j.t.Helper()
	if err := os.WriteFile(j.finish, nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
	for _, job := range []*batchv1.Job{j.scheduler, j.servers, j.workers} {
		await(j.t, job.Name+" is complete", func() bool { return strings.Contains(j.summary(job), "Complete") })
	}
	j.note("all Jobs are complete")
	done, begun := 0, 0
	for _, text := range j.outputs() {
		done += strings.Count(text, "| done: examples lost 0, doubled 0\n")
		begun += strings.Count(text, "step 0 of epoch 0,")
	}
	if done != 2 || begun != 1 {
		j.t.Errorf("the training began %d times, want once, and %d workers say that every example was used once in each epoch, want 2", begun, done)
	}
	j.nothingLeft()
}

func (j *runningJob) outputs() (texts []string) {
	j.k.mu.Lock()
	defer j.k.mu.Unlock()
	for _, p := range j.k.started {
		texts = append(texts, p.output.String())
	}
	return texts
}

func (j *runningJob) nothingLeft() {
	j.t.Helper()
	j.k.mu.Lock()
	defer j.k.mu.Unlock()
	for name, p := range j.k.started {
		if err := syscall.Kill(-p.cmd.Process.Pid, 0); err == nil {
			j.t.Errorf("processes of %s are left", name)
		}
	}
}

var onVolume = []string{"-n", "2", "-s", "2", "--pvc", "checkpoints:/checkpoints", "--env", "NOTHING=$(HOME) $$"}

// An elastic job goes through what happens in a cluster: workers are scaled, one is evicted, the
// scheduler's pod is killed.
func TestPodsOfAnElasticJob(t *testing.T) {
	// It waits for back-offs of 10 s.
	t.Parallel()
	j := startJob(t, append([]string{"--elastic-training-enabled", "--max-workers", "4"}, onVolume...))
	j.train(2)
	j.note("2 workers train")
	j.scale(j.workers, 3)
	j.train(3)
	j.note("scaled to 3")

	pod := j.pods(j.workers)[1]
	j.evict(pod)
	j.ends(pod, 143)
	j.note("one is evicted, and its pod has ended")
	j.train(2)
	j.note("2 train on")
	j.train(3)
	j.note("its replacement has joined")
	if got, want := j.summary(j.workers), "pods [0 1 2] failed 0"; got != want {
		t.Errorf("after the eviction: %s, want %s", got, want)
	}

	j.scale(j.workers, 2)
	j.train(2)
	j.note("scaled to 2")

	pod = j.pods(j.scheduler)[0]
	if err := j.k.container(pod).cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	j.replaced(j.scheduler, pod)
	j.note("the scheduler's pod is killed, and replaced")
	j.train(2)
	j.note("2 workers train again")
	j.complete()
	if got, want := j.summary(j.scheduler), "pods [] failed 1 complete 0 Complete CompletionsReached"; got != want {
		t.Errorf("the scheduler's Job: %s, want %s", got, want)
	}
}

// A job that is not elastic stops with a checkpoint when one of its pods is evicted, and goes on
// when that is replaced.
func TestPodsOfAJobAreEvicted(t *testing.T) {
	// It waits for back-offs of 10 s.
	t.Parallel()
	j := startJob(t, onVolume)
	j.train(2)
	pod := j.pods(j.scheduler)[0]
	j.evict(pod)
	j.ends(pod, 143)
	j.note("the scheduler's pod is evicted")
	j.replaced(j.scheduler, pod)
	j.train(2)
	j.note("2 workers train again")

	pod = j.pods(j.workers)[0]
	j.evict(pod)
	j.ends(pod, 143)
	j.note("a worker is evicted")
	j.replaced(j.workers, pod)
	j.train(2)
	j.note("2 workers train again")
	j.complete()
}

// With --restarts a job goes on from its newest checkpoint after a pod was killed, when that is
// replaced.
func TestPodsOfAJobAreKilled(t *testing.T) {
	// It waits for back-offs of 10 s.
	t.Parallel()
	j := startJob(t, append([]string{"--restarts", "3"}, onVolume...))
	j.train(2)
	for _, job := range []*batchv1.Job{j.workers, j.servers} {
		j.saves()
		pod := j.pods(job)[1]
		if err := syscall.Kill(-j.k.container(pod).cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		j.ends(pod, 137)
		j.note("killed: " + pod.Name)
		j.replaced(job, pod)
		j.train(2)
		j.note("2 workers train again")
	}
	j.complete()
}

// A worker that exits with 3 ends the job, whose exit code that is: the scheduler's Job fails at
// once, and the agents' pods end.
func TestPodsOfAJobThatFails(t *testing.T) {
	// It waits for back-offs of 10 s.
	t.Parallel()
	j := startJob(t, []string{"-n", "2", "-s", "1"}, "/bin/sh", "-c", "exit 3")
	pod := j.podOf(j.scheduler)
	j.ends(pod, 3)
	j.note("the scheduler's pod has ended")
	await(t, "the Jobs have ended", func() bool {
		return strings.Contains(j.summary(j.scheduler), "Failed PodFailurePolicy") && strings.Contains(j.summary(j.workers), "Complete") && strings.Contains(j.summary(j.servers), "Complete")
	})
	j.note("all Jobs have ended")
	j.nothingLeft()
}

// podOf waits for the first pod of a Job.
func (j *runningJob) podOf(like *batchv1.Job) *v1.Pod {
	j.t.Helper()
	var pod *v1.Pod
	await(j.t, "a pod of "+like.Name, func() bool {
		p := j.pods(like)
		if len(p) > 0 && j.k.container(p[0]) != nil {
			pod = p[0]
		}
		return pod != nil
	})
	return pod
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
