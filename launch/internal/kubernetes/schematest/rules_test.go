package schematest

import (
	"encoding/json"
	"io"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	jobstrategy "k8s.io/kubernetes/pkg/registry/batch/job"
)

func init() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// What becomes of pods that end: the rules of doc.go of package kubernetes, by the Job controller
// itself.
func TestJobControllerFollowsTheRules(t *testing.T) {
	const (
		workers   = "paragon-workers"
		servers   = "paragon-servers"
		scheduler = "paragon-scheduler"
	)
	for _, tc := range []struct {
		name, job string
		happens   func(c *cluster, pods []*v1.Pod)

		// want is after a minute. The back-off after a failure is 10 s at first.
		want string
	}{
		{"evicted, left, exit code 143: replaced, not counted", workers,
			func(c *cluster, p []*v1.Pod) { c.evict(p[1]); c.exits(p[1], 143, "Error") },
			"pods [0 1] failed 0"},
		{"evicted server: the same", servers,
			func(c *cluster, p []*v1.Pod) { c.evict(p[0]); c.exits(p[0], 143, "Error") },
			"pods [0 1] failed 0"},
		{"evicted, and still leaving: no second pod of this name yet", workers,
			func(c *cluster, p []*v1.Pod) { c.evict(p[1]) },
			"pods [0] failed 0"},
		{"evicted, exit code 0: complete, and never replaced", workers,
			func(c *cluster, p []*v1.Pod) { c.evict(p[1]); c.exits(p[1], 0, "Completed") },
			"pods [0] failed 0 complete 1"},
		{"evicted and killed after its grace period: replaced, not counted", workers,
			func(c *cluster, p []*v1.Pod) { c.evict(p[0]); c.exits(p[0], 137, "Error") },
			"pods [0 1] failed 0"},
		{"its node is lost: replaced, not counted", workers,
			func(c *cluster, p []*v1.Pod) {
				c.evict(p[0])
				c.status(p[0], func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }) // by the collector of pods
			},
			"pods [0 1] failed 0"},
		{"the agent lost its launcher: replaced, counted", workers,
			func(c *cluster, p []*v1.Pod) { c.exits(p[1], 1, "Error") },
			"pods [0 1] failed 1"},
		{"killed for memory: replaced, counted", workers,
			func(c *cluster, p []*v1.Pod) { c.exits(p[1], 137, "OOMKilled") },
			"pods [0 1] failed 1"},
		{"refused by the launcher: replaced, counted", workers,
			func(c *cluster, p []*v1.Pod) { c.exits(p[0], 77, "Error") },
			"pods [0 1] failed 1"},
		{"deleted by hand: replaced, counted", workers,
			func(c *cluster, p []*v1.Pod) { c.delete(p[1]); c.exits(p[1], 143, "Error") },
			"pods [0 1] failed 1"},
		{"a wrong command line of the agent: the Job fails", workers,
			func(c *cluster, p []*v1.Pod) { c.exits(p[0], 2, "Error"); c.exits(p[1], 2, "Error") },
			"pods [] failed 2 Failed PodFailurePolicy"},
		{"the job is over: complete", workers,
			func(c *cluster, p []*v1.Pod) { c.exits(p[0], 0, "Completed"); c.exits(p[1], 0, "Completed") },
			"pods [] failed 0 complete 0,1 Complete CompletionsReached"},

		{"exit code 3 of a worker, and so of launch: the job fails", scheduler,
			func(c *cluster, p []*v1.Pod) { c.exits(p[0], 3, "Error") },
			"pods [] failed 1 Failed PodFailurePolicy"},
		{"launch could not start the job: the job fails", scheduler,
			func(c *cluster, p []*v1.Pod) { c.exits(p[0], 1, "Error") },
			"pods [] failed 1 Failed PodFailurePolicy"},
		{"scheduler evicted: replaced, not counted", scheduler,
			func(c *cluster, p []*v1.Pod) { c.evict(p[0]); c.exits(p[0], 143, "Error") },
			"pods [0] failed 0"},
		{"scheduler killed: replaced, counted", scheduler,
			func(c *cluster, p []*v1.Pod) { c.exits(p[0], 137, "OOMKilled") },
			"pods [0] failed 1"},
		{"launch stopped for requeue: replaced, counted", scheduler,
			func(c *cluster, p []*v1.Pod) { c.exits(p[0], 85, "Error") },
			"pods [0] failed 1"},
		{"the job is done", scheduler,
			func(c *cluster, p []*v1.Pod) { c.exits(p[0], 0, "Completed") },
			"pods [] failed 0 complete 0 Complete CompletionsReached"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, tc.job, func(c *cluster, j *batchv1.Job) {
				tc.happens(c, c.pods(j))
				c.after(time.Minute, j, tc.want)
			})
		})
	}
}

// bubble runs a Job of plain.yaml on fake time; its pods run.
func bubble(t *testing.T, name string, run func(c *cluster, j *batchv1.Job)) {
	j := jobOf(t, find(t, manifests(t, "plain.yaml"), "Job", name))
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.end()
		c.apply(j)
		time.Sleep(time.Second)
		synctest.Wait()
		c.allRun(j)
		run(c, j)
	})
}

func (c *cluster) allRun(j *batchv1.Job) {
	for _, p := range c.pods(j) {
		c.running(p)
	}
}

// after compares the state of a Job after a time.
func (c *cluster) after(d time.Duration, j *batchv1.Job, want string) {
	c.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if got := c.summary(j); got != want {
		c.t.Errorf("after %s: %s: %s, want %s", d, j.Name, got, want)
	}
}

// longest is more than the longest back-off, 10 minutes.
const longest = 12 * time.Minute

// A pod that fails again and again is given up after 6 replacements; the others of its Job run on.
// The scheduler's is given up, too.
func TestReplacementsAreLimited(t *testing.T) {
	bubble(t, "paragon-workers", func(c *cluster, j *batchv1.Job) {
		for n := range 7 {
			p := c.pods(j)
			if len(p) != 2 {
				c.t.Fatalf("after %d failures: %s, want pods 0 and 1", n, c.summary(j))
			}
			c.exits(p[1], 1, "Error")
			time.Sleep(longest)
			synctest.Wait()
		}
		c.after(0, j, "pods [0] failed 7 given up 1")
		c.exits(c.pods(j)[0], 0, "Completed")
		c.after(time.Minute, j, "pods [] failed 7 complete 0 given up 1 Failed FailedIndexes")
	})
	bubble(t, "paragon-scheduler", func(c *cluster, j *batchv1.Job) {
		for range 7 {
			c.exits(c.pods(j)[0], 137, "OOMKilled")
			time.Sleep(longest)
			synctest.Wait()
		}
		c.after(0, j, "pods [] failed 7 Failed BackoffLimitExceeded")
	})
}

// An eviction is never counted, however often it happens; a pod that is evicted again and again
// waits as long as one that fails.
func TestEvictionsAreNotLimited(t *testing.T) {
	bubble(t, "paragon-workers", func(c *cluster, j *batchv1.Job) {
		for range 20 {
			p := c.pods(j)
			c.evict(p[1])
			c.exits(p[1], 143, "Error")
			c.after(longest, j, "pods [0 1] failed 0")
		}
	})
}

// Workers come and go by completions and parallelism, changed together: the API server refuses one
// alone.
func TestJobIsScaledByBothNumbers(t *testing.T) {
	j := jobOf(t, find(t, manifests(t, "elastic.yaml"), "Job", "job-workers"))
	for patch, ok := range map[string]bool{
		`{"spec":{"completions":5,"parallelism":5}}`: true,
		`{"spec":{"completions":1,"parallelism":1}}`: true,
		`{"spec":{"completions":5}}`:                 false,
	} {
		changed := j.DeepCopy()
		if err := json.Unmarshal([]byte(patch), changed); err != nil {
			t.Fatal(err)
		}
		var before, after batch.Job
		for from, to := range map[*batchv1.Job]*batch.Job{j: &before, changed: &after} {
			if err := legacyscheme.Scheme.Convert(from, to, nil); err != nil {
				t.Fatal(err)
			}
		}
		before.ResourceVersion, after.ResourceVersion = "1", "1"
		if errs := jobstrategy.Strategy.ValidateUpdate(t.Context(), &after, &before); (len(errs) == 0) != ok {
			t.Errorf("patch %s: errors %v, want it to be admitted: %t", patch, errs, ok)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.end()
		c.apply(j)
		c.after(2*time.Second, j, "pods [0 1 2] failed 0")
		c.allRun(j)
		c.scale(j, 5)
		c.after(2*time.Second, j, "pods [0 1 2 3 4] failed 0")
		c.allRun(j)
		c.scale(j, 2)
		c.after(2*time.Second, j, "pods [0 1] failed 0")
		if n := c.finish(143); n != 3 { // the pods that were deleted leave
			t.Errorf("%d pods had to leave, want 3", n)
		}
		c.after(time.Minute, j, "pods [0 1] failed 0")

		// A pod of that index comes again.
		c.scale(j, 3)
		c.after(2*time.Second, j, "pods [0 1 2] failed 0")
	})
}

// scale is the command that docs/how-to/kubernetes.md has.
func (c *cluster) scale(j *batchv1.Job, pods int) {
	c.t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"completions": pods, "parallelism": pods}})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.client.BatchV1().Jobs(j.Namespace).Patch(c.t.Context(), j.Name, types.StrategicMergePatchType, patch, meta.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// A status that the controller computed before a Job was scaled does not undo the scaling.
func TestAnOlderStatusKeepsTheSpecification(t *testing.T) {
	c := &cluster{t: t, client: fake.NewSimpleClientset()}
	c.serve()
	j := &batchv1.Job{ObjectMeta: meta.ObjectMeta{Name: "workers", Namespace: "default"}, Spec: batchv1.JobSpec{Completions: new(int32(3))}}
	c.apply(j)
	c.scale(j, 2)
	j.Status.Active = 3
	if _, err := c.client.BatchV1().Jobs(j.Namespace).UpdateStatus(t.Context(), j, meta.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if now := c.job(j); *now.Spec.Completions != 2 || now.Status.Active != 3 {
		t.Errorf("completions %d, active %d, want 2, 3", *now.Spec.Completions, now.Status.Active)
	}
}

// finish ends the pods that were asked to end, and returns their number.
func (c *cluster) finish(code int) (n int) {
	c.t.Helper()
	list, err := c.client.CoreV1().Pods("").List(c.t.Context(), meta.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp != nil && !ended(&p) {
			c.exits(&p, code, "Error")
			n++
		}
	}
	return n
}

// With Kueue no pod starts before it has admitted the Job.
func TestQueuedJobWaits(t *testing.T) {
	o := plainJobs(find(t, manifests(t, "jobset.yaml"), "JobSet", "resnet"))[2]
	o["spec"].(map[string]any)["suspend"] = true // by the JobSet
	j := jobOf(t, o)
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.end()
		c.apply(j)
		c.after(time.Minute, j, "pods [] failed 0")
		admitted := c.job(j)
		admitted.Spec.Suspend = new(false)
		if _, err := c.client.BatchV1().Jobs(j.Namespace).Update(t.Context(), admitted, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.after(time.Minute, j, "pods [0 1 2 3] failed 0")
	})
}
