package schematest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

// An elastic job goes through what happens in a cluster: workers are scaled, one is evicted, the scheduler's pod is killed. It ends well, each example
// was used once in each epoch, and no process is left.
func TestPodsOfAnElasticJob(t *testing.T) {
	programs, dir := t.TempDir(), t.TempDir()
	begin := time.Now()
	note := func(what string) { t.Logf("%5.1f s: %s", time.Since(begin).Seconds(), what) }
	build(t, programs, "./launch", "./internal/testing/countjob")
	finish := filepath.Join(dir, "finish")
	port := freePort(t)
	note("built")
	r := exec.Command(filepath.Join(programs, "launch"), "k8s", "render", "--image", "train:1", "--name", "job", "--secret-file", filepath.Join(dir, "secret"),
		"-n", "2", "-s", "2", "--elastic-training-enabled", "--max-workers", "4", "--stop-timeout", "20s", "--pvc", "checkpoints:/checkpoints",
		"--env", "NOTHING=$(HOME) $$", "--status-listen", "off",
		"--", "/programs/countjob", "--checkpoints", "/checkpoints/job", "--finish", finish)
	var stderr strings.Builder
	r.Stderr = &stderr
	text, err := r.Output()
	if err != nil {
		t.Fatalf("render: %v: %s", err, stderr.String())
	}
	objects := parse(t, text)
	secret := filepath.Join(dir, "mounted")
	data := find(t, objects, "Secret", "job-secret")["stringData"].(map[string]any)["secret"].(string)
	if err := os.WriteFile(secret, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t)
	defer c.end()
	k := startKubelet(t, c, programs, strings.NewReplacer("/etc/paragon/secret/secret", secret, "job-scheduler-0.job:7077", "127.0.0.1:"+port,
		":7077", "127.0.0.1:"+port, "/checkpoints", dir, "/programs", programs))
	defer func() {
		if t.Failed() {
			k.dump()
		}
	}()
	var jobs []*batchv1.Job
	for _, name := range []string{"job-scheduler", "job-servers", "job-workers"} {
		jobs = append(jobs, jobOf(t, find(t, objects, "Job", name)))
		c.apply(jobs[len(jobs)-1])
	}
	scheduler, workers := jobs[0], jobs[2]
	says := func(text string) {
		t.Helper()
		await(t, fmt.Sprintf("%q in the log of the scheduler's pod", text), func() bool {
			p := c.pods(scheduler)
			return len(p) == 1 && k.container(p[0]) != nil && strings.Contains(latest(k.container(p[0]).output.String()), text)
		})
	}
	says("workers 2")
	note("2 workers train")
	c.scale(workers, 3)
	says("workers 3")
	note("scaled to 3")

	pod := c.pods(workers)[1]
	left := k.container(pod)
	c.evict(pod)
	<-left.ended
	if code := left.cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("the evicted pod exits with %d, want 143: %s", code, left.output.String())
	}
	note("evicted, and the pod has ended")
	says("workers 2")
	note("2 train on")
	says("workers 3")
	note("its replacement has joined")
	if got, want := c.summary(workers), "pods [0 1 2] failed 0"; got != want {
		t.Errorf("after the eviction: %s, want %s", got, want)
	}

	c.scale(workers, 2)
	says("workers 2")
	note("scaled to 2")

	killed := c.pods(scheduler)[0]
	if err := k.container(killed).cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "a new pod of the scheduler", func() bool { p := c.pods(scheduler); return len(p) == 1 && p[0].Name != killed.Name })
	note("killed, and a new pod runs")
	says("workers 2")
	note("2 workers train again")
	if err := os.WriteFile(finish, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		await(t, j.Name+" is complete", func() bool { return strings.Contains(c.summary(j), "Complete") })
	}
	note("all Jobs are complete")
	if got, want := c.summary(scheduler), "pods [] failed 1 complete 0 Complete CompletionsReached"; got != want {
		t.Errorf("the scheduler's Job: %s, want %s", got, want)
	}
	done, begun := false, 0
	k.mu.Lock()
	for _, p := range k.started {
		text := p.output.String()
		done = done || strings.Contains(text, "done: examples lost 0, doubled 0")
		begun += strings.Count(text, "step 0 of epoch 0,")
		if err := syscall.Kill(-p.cmd.Process.Pid, 0); err == nil {
			t.Errorf("processes of %s are left", p.pod.Name)
		}
	}
	k.mu.Unlock()
	if begun != 1 {
		t.Errorf("the job began %d times, want once: the second scheduler resumes from a checkpoint", begun)
	}
	if !done {
		t.Error("no pod says that each example was used once in each epoch")
	}
}

// latest are the last lines of an output, where the present number of workers is.
func latest(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "\n")
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
