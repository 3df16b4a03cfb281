package schematest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/job"
)

// A cluster is an API server in memory and Kubernetes' Job controller. It has no nodes: a test says
// how pods end, or runs their commands.
type cluster struct {
	t      *testing.T
	client *fake.Clientset

	// mu lets the parts of the API server that are written here serve one request at a time.
	mu sync.Mutex

	made int // pods

	// version is that of objects. The controller takes no note of an update that has the old
	// version.
	version int

	end func() // ends the controller
}

var (
	podResource = v1.SchemeGroupVersion.WithResource("pods")
	jobResource = batchv1.SchemeGroupVersion.WithResource("jobs")
)

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, client: fake.NewSimpleClientset()}
	c.serve()
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(c.client, 0)
	controller, err := job.NewController(ctx, c.client, factory.Core().V1().Pods(), factory.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { controller.Run(ctx, 1) })
	c.end = func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	}
	return c
}

// serve adds what the API server does and the client in memory does not.
func (c *cluster) serve() {
	c.client.PrependReactor("create", "pods", c.createPod)
	c.client.PrependReactor("delete", "pods", c.deletePod)
	c.client.PrependReactor("patch", "jobs", c.patchJob)
	c.client.PrependReactor("update", "jobs", c.updateJob)
}

// createPod gives a pod what the API server gives it.
func (c *cluster) createPod(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod := action.(clienttesting.CreateAction).GetObject().DeepCopyObject().(*v1.Pod)
	c.made++
	pod.Namespace = action.GetNamespace()
	pod.Name = cmp.Or(pod.Name, fmt.Sprintf("%s%05d", pod.GenerateName, c.made))
	pod.UID = types.UID("pod-" + strconv.Itoa(c.made))
	pod.CreationTimestamp = meta.Now()
	pod.Status.Phase = v1.PodPending
	c.changed(pod)
	return true, pod, c.client.Tracker().Create(podResource, pod, pod.Namespace)
}

// deletePod asks the kubelet to end a pod that has not ended.
func (c *cluster) deletePod(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, err := c.get(action.GetNamespace(), action.(clienttesting.DeleteAction).GetName())
	if err != nil {
		return true, nil, err
	}
	if pod.DeletionTimestamp == nil {
		pod.DeletionTimestamp = new(meta.Now())
		pod.DeletionGracePeriodSeconds = pod.Spec.TerminationGracePeriodSeconds
	}
	return true, pod, c.put(pod)
}

// patchJob changes a Job with no other change between its reading and its writing.
func (c *cluster) patchJob(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return clienttesting.ObjectReaction(c.client.Tracker())(action)
}

// updateJob writes of a status no more than the status, as the API server does: the controller's
// copy of the Job may be older than the last patch of the specification.
func (c *cluster) updateJob(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	update := action.(clienttesting.UpdateAction)
	written := update.GetObject().(*batchv1.Job)
	if update.GetSubresource() == "status" {
		o, err := c.client.Tracker().Get(jobResource, update.GetNamespace(), written.Name)
		if err != nil {
			return true, nil, err
		}
		now := o.(*batchv1.Job).DeepCopy()
		now.Status = written.Status
		written = now
	}
	return true, written, c.client.Tracker().Update(jobResource, written, update.GetNamespace())
}

func (c *cluster) get(namespace, name string) (*v1.Pod, error) {
	o, err := c.client.Tracker().Get(podResource, namespace, name)
	if err != nil {
		return nil, err
	}
	return o.(*v1.Pod).DeepCopy(), nil
}

func (c *cluster) changed(pod *v1.Pod) {
	c.version++
	pod.ResourceVersion = strconv.Itoa(c.version)
}

// put stores a pod. One that is deleted, has ended and is accounted for is gone.
func (c *cluster) put(pod *v1.Pod) error {
	c.changed(pod)
	if err := c.client.Tracker().Update(podResource, pod, pod.Namespace); err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil && ended(pod) && len(pod.Finalizers) == 0 {
		return c.client.Tracker().Delete(podResource, pod.Namespace, pod.Name)
	}
	return nil
}

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded
}

// apply makes a Job, as the API server stores it.
func (c *cluster) apply(j *batchv1.Job) {
	c.t.Helper()
	if _, err := c.client.BatchV1().Jobs(j.Namespace).Create(c.t.Context(), j, meta.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) job(like *batchv1.Job) *batchv1.Job {
	c.t.Helper()
	j, err := c.client.BatchV1().Jobs(like.Namespace).Get(context.Background(), like.Name, meta.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return j
}

// pods are those of a Job that have not ended and shall not end, by index.
func (c *cluster) pods(j *batchv1.Job) []*v1.Pod {
	c.t.Helper()
	list, err := c.client.CoreV1().Pods(j.Namespace).List(context.Background(), meta.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var pods []*v1.Pod
	for _, p := range list.Items {
		if p.Labels[batchv1.JobNameLabel] == j.Name && !ended(&p) && p.DeletionTimestamp == nil {
			pods = append(pods, &p)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(index(a), index(b)) })
	return pods
}

func index(p *v1.Pod) int {
	i, _ := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	return i
}

// status writes what a kubelet or another part of the cluster reports of a pod.
func (c *cluster) status(pod *v1.Pod, change func(p *v1.Pod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.get(pod.Namespace, pod.Name)
	if err != nil {
		return // it is gone
	}
	change(now)
	if err := c.put(now); err != nil {
		c.t.Error(err)
	}
}

func (c *cluster) running(pod *v1.Pod) {
	c.status(pod, func(p *v1.Pod) {
		p.Status.Phase = v1.PodRunning
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: meta.Now()})
	})
}

// exits reports that the pod's container has ended, as the kubelet does: with restartPolicy Never
// any code but 0 is a failure.
func (c *cluster) exits(pod *v1.Pod, code int, reason string) {
	c.status(pod, func(p *v1.Pod) {
		p.Status.Phase = v1.PodFailed
		if code == 0 {
			p.Status.Phase = v1.PodSucceeded
		}
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: v1.ContainerState{
			Terminated: &v1.ContainerStateTerminated{ExitCode: int32(code), Reason: reason, FinishedAt: meta.Now()},
		}}}
	})
}

// evict is the eviction of the API server (a drain, a preemption, a taint): it marks the pod, and
// deletes it.
func (c *cluster) evict(pod *v1.Pod) {
	c.t.Helper()
	c.status(pod, func(p *v1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: meta.Now()})
	})
	c.delete(pod)
}

func (c *cluster) delete(pod *v1.Pod) {
	c.t.Helper()
	if err := c.client.CoreV1().Pods(pod.Namespace).Delete(c.t.Context(), pod.Name, meta.DeleteOptions{}); err != nil {
		c.t.Error(err)
	}
}

// summary is the state of a Job: its pods by index, what was counted, and how it ended.
func (c *cluster) summary(like *batchv1.Job) string {
	j := c.job(like)
	var words []string
	for _, p := range c.pods(j) {
		words = append(words, strconv.Itoa(index(p)))
	}
	text := fmt.Sprintf("pods [%s] failed %d", strings.Join(words, " "), j.Status.Failed)
	if j.Status.CompletedIndexes != "" {
		text += " complete " + j.Status.CompletedIndexes
	}
	if f := j.Status.FailedIndexes; f != nil && *f != "" {
		text += " given up " + *f
	}
	for _, condition := range j.Status.Conditions {
		if condition.Type == batchv1.JobFailed || condition.Type == batchv1.JobComplete {
			text += " " + string(condition.Type) + " " + condition.Reason
		}
	}
	return text
}
