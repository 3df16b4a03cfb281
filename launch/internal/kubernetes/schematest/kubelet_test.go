package schematest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// A kubelet runs the containers of all pods as processes of this machine. What a pod has to itself
// is a folder in place of /tmp; what names mean in the cluster, and where volumes are, replace
// says.
type kubelet struct {
	t        *testing.T
	c        *cluster
	replace  *strings.Replacer
	programs string // folder in PATH

	mu sync.Mutex

	// started are by the name of the pod.
	started map[string]*container

	running sync.WaitGroup
}

// A container is a process of a pod.
type container struct {
	pod    *v1.Pod
	cmd    *exec.Cmd
	output lockedBuffer
	ended  chan struct{}
	once   sync.Once // SIGTERM
}

// A lockedBuffer is read while a process writes to it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func startKubelet(t *testing.T, c *cluster, programs string, replace *strings.Replacer) *kubelet {
	t.Helper()
	k := &kubelet{t: t, c: c, replace: replace, programs: programs, started: make(map[string]*container)}
	w, err := c.client.CoreV1().Pods("").Watch(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.running.Go(func() {
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*v1.Pod); ok && e.Type != watch.Deleted {
				k.sync(pod)
			}
		}
	})
	t.Cleanup(func() {
		w.Stop()
		k.mu.Lock()
		for _, p := range k.started {
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
		k.mu.Unlock()
		k.running.Wait()
	})
	return k
}

// sync starts the container of a new pod, and ends that of one that is deleted: by SIGTERM, and
// after the grace period by SIGKILL.
func (k *kubelet) sync(pod *v1.Pod) {
	k.mu.Lock()
	p := k.started[pod.Name]
	if p == nil && pod.DeletionTimestamp == nil {
		p = k.start(pod)
		k.started[pod.Name] = p
	}
	k.mu.Unlock()
	if p == nil || pod.DeletionTimestamp == nil {
		return
	}
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		k.running.Go(func() {
			grace := time.NewTimer(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
			defer grace.Stop()
			select {
			case <-p.ended:
			case <-grace.C:
				_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			}
		})
	})
}

func (k *kubelet) start(pod *v1.Pod) *container {
	spec := pod.Spec.Containers[0]
	tmp := k.t.TempDir()
	variables := map[string]string{}
	p := &container{pod: pod, ended: make(chan struct{})}
	env := []string{"PATH=" + k.programs, "TMPDIR=" + tmp}
	for _, v := range spec.Env {
		variables[v.Name] = v.Value
		env = append(env, v.Name+"="+strings.Replace(v.Value, "/tmp", tmp, 1))
	}
	mapping := expansion.MappingFuncFor(variables)
	var words []string
	for _, word := range append(spec.Command[:len(spec.Command):len(spec.Command)], spec.Args...) {
		words = append(words, k.replace.Replace(expansion.Expand(word, mapping)))
	}

	// The name is the one that the host has in the pod.
	if words[1] == "agent" {
		words = append(words, "--name", pod.Spec.Hostname)
	}
	p.cmd = exec.Command(filepath.Join(k.programs, words[0]), words[1:]...)
	p.cmd.Env, p.cmd.Dir = env, tmp
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		k.t.Errorf("start %s: %v", pod.Name, err)
		close(p.ended)
		return p
	}
	k.running.Go(func() {
		k.c.running(pod)
		err := p.cmd.Wait()
		close(p.ended)
		code := p.cmd.ProcessState.ExitCode()
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			k.t.Errorf("%s: %v", pod.Name, err)
		}
		k.c.exits(pod, code, "")
	})
	return p
}

// container is the process of a pod that runs.
func (k *kubelet) container(pod *v1.Pod) *container {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.started[pod.Name]
}

// dump prints what all processes wrote, for a test that failed.
func (k *kubelet) dump() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, p := range k.started {
		text := p.output.String()
		k.t.Logf("%s (%s):\n%s", name, strings.Join(p.cmd.Args, " "), text[max(0, len(text)-3000):])
	}
}

// await polls: Kubernetes' own state changes by several processes of it.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after two minutes still not: %s", what)
		}
	}
}

// build builds programs of the product into a folder, in the workspace, of which this module is no
// part.
func build(t *testing.T, folder string, packages ...string) {
	t.Helper()
	args := []string{"build", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-tags=nobuckets", "-o", folder + string(os.PathSeparator)}
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Dir = filepath.Join("..", "..", "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", strings.Join(packages, " "), err, out)
	}
}
