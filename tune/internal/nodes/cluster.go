package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/procgroup"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// Tasks starts tasks on the nodes of a cluster. Which processors and GPUs of a node a task gets the
// cluster's scheduler decides: the search only counts them.
type Tasks struct {
	cluster *jobs.Cluster
	alloc   *slots.Allocator
	launch  func() (string, error)
	changed func(cause string)
	logger  *slog.Logger
	// lost says that a node was lost: see jobs.TaskRequest.Overlap.
	lost atomic.Bool
}

// newTasks makes a node of each of the cluster's.
func newTasks(cfg Config, alloc *slots.Allocator) (*Tasks, error) {
	t := &Tasks{cluster: cfg.Cluster, alloc: alloc, launch: cfg.Launch, changed: cfg.Changed, logger: cfg.Logger}
	all, err := countedNodes(cfg.Cluster)
	for _, n := range all {
		err = errors.Join(err, alloc.Add(n))
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// countedNodes are the cluster's nodes. Their processors and GPUs have numbers that only count
// them.
func countedNodes(c *jobs.Cluster) ([]slots.Node, error) {
	if len(c.Nodes) == 0 || c.Command == nil {
		return nil, errors.New("tune: Jobs.Cluster has no Nodes or no Command, want both")
	}
	all := make([]slots.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		if n.CPUs < 1 || n.GPUs < 0 {
			return nil, fmt.Errorf("tune: Jobs.Cluster: node %s has %d processors and %d GPUs, want at least 1 and 0", n.Name, n.CPUs, n.GPUs)
		}
		all[i] = slots.Node{Name: n.Name}
		for c := range n.CPUs {
			all[i].CPUs = append(all[i].CPUs, c)
		}
		for g := range n.GPUs {
			// The allocator takes equal names for one GPU, so each name has its node's.
			all[i].GPUs = append(all[i].GPUs, fmt.Sprintf("%s#%d", n.Name, g))
		}
	}
	return all, nil
}

// CheckTask says why a task cannot run a trial with these resources.
func CheckTask(r jobs.Resources) error {
	switch {
	case r.Hosts != 1:
		return fmt.Errorf("tune: a trial of %d hosts: on a cluster's nodes a trial is one step on one node; leave hosts out and give it more slots", r.Hosts)
	case r.Slots > 1 && r.GPUs > 0:
		return fmt.Errorf("tune: a trial of %d slots with %d GPUs each: on a cluster's nodes a trial with GPUs has one slot, whose worker uses all of them", r.Slots, r.GPUs)
	}
	return nil
}

const (
	// pingEvery is how often the agent in a step is asked whether it is there; pingTimeout is
	// how long it may take to answer.
	pingEvery   = time.Second
	pingTimeout = Lease
	// KillTimeout bounds the wait for processes that were killed.
	KillTimeout = 5 * time.Second
	// probeTimeout bounds a step that only shows whether its node takes steps.
	probeTimeout = 10 * time.Second
)

// A Task is one that runs, with an agent in it.
type Task struct {
	// Client speaks with the agent.
	Client *agent.Client
	node   string
	cmd    *exec.Cmd
	// done is closed when the command has ended.
	done chan struct{}
	said *taskMessages
	ping context.CancelFunc
}

// Open starts an agent in a task on a part of a node, and returns when it answers. ctx bounds that
// alone.
func (t *Tasks) Open(ctx context.Context, part slots.Part) (*Task, error) {
	launch, err := t.launch()
	if err != nil {
		return nil, err
	}
	node := part.Node
	request := jobs.TaskRequest{Node: node, CPUs: len(part.CPUs), GPUs: len(part.GPUs), Overlap: t.lost.Load()}
	words := append(slices.Clone(t.cluster.Command(request)), launch, "agent", Lease.String())
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = t.cluster.Env
	// Ctrl-C is for the search, which ends its trials itself.
	procgroup.Own(cmd)
	x := &Task{node: node, cmd: cmd, done: make(chan struct{}), said: &taskMessages{node: node, logger: t.logger}}
	cmd.Stderr = x.said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a step on %s: %w", node, err)
	}
	if x.Client, err = agent.NewClient(ctx, node, in, out); err != nil {
		go func() { cmd.Wait(); close(x.done) }()
		x.kill(ctx.Err() != nil)
		if said := x.said.last(); said != "" && ctx.Err() == nil {
			err = errors.New(said)
		}
		return nil, fmt.Errorf("start a step on %s: %w", node, err)
	}
	go func() {
		// Once the connection is gone, all of its output has been read.
		<-x.Client.Gone()
		cmd.Wait()
		close(x.done)
	}()
	var pinging context.Context
	pinging, x.ping = context.WithCancel(context.Background())
	go x.watch(pinging)
	return x, nil
}

// watch ends a step whose agent no longer answers: the command that started it may not notice that
// its node is gone.
func (x *Task) watch(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-x.Client.Gone():
			return
		case <-ctx.Done():
			return
		}
		asking, cancel := context.WithTimeout(ctx, pingTimeout)
		_, err := x.Client.Ask(asking, agent.Question{})
		cancel()
		if err != nil && ctx.Err() == nil {
			// Its output ends, and so the Client is gone.
			x.cmd.Process.Kill()
			return
		}
	}
}

// Close ends the agent and what it runs, and with it the task.
func (x *Task) Close() {
	x.ping()
	closing, cancel := context.WithTimeout(context.Background(), KillTimeout)
	defer cancel()
	_ = x.Client.Close(closing)
	x.kill(false)
}

// kill returns when the command has ended; now: without waiting for it to end by itself.
func (x *Task) kill(now bool) {
	if !now {
		select {
		case <-x.done:
			return
		case <-time.After(KillTimeout):
		}
	}
	x.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-x.done:
	case <-time.After(KillTimeout):
		x.cmd.Process.Kill()
		<-x.done
	}
}

// probe reports why a node takes no step; nil: it does.
func (t *Tasks) probe(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	words := append(slices.Clone(t.cluster.Command(jobs.TaskRequest{Node: node, CPUs: 1, Overlap: true})), "true")
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env, cmd.WaitDelay = t.cluster.Env, time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// Suspect looks whether a node takes tasks at all, and removes it if it does not: trials that run
// on it end.
func (t *Tasks) Suspect(ctx context.Context, node string) {
	err := t.probe(ctx, node)
	if err == nil || ctx.Err() != nil {
		return
	}
	t.logger.Warn("tune: a step could not be started on a node; the node is removed", "node", node, "error", err)
	t.lost.Store(true)
	if t.alloc.Lose(node) == nil {
		// Another trial may have found the loss before.
		t.changed(fmt.Sprintf("node %s was lost", node))
	}
}

// taskMessages logs what the command of a step says.
type taskMessages struct {
	node   string
	logger *slog.Logger
	// mu guards the rest.
	mu sync.Mutex
	// part is the beginning of a line.
	part []byte
	// line is the newest line of the output.
	line string
}

// maxMessage bounds a line, in bytes.
const maxMessage = 4 << 10

func (m *taskMessages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.part = append(m.part, p...)
	for {
		line, rest, ok := bytes.Cut(m.part, []byte("\n"))
		if !ok && len(m.part) < maxMessage {
			return len(p), nil
		}
		if text := strings.TrimSpace(string(line)); text != "" {
			m.line = text
			m.logger.Warn("tune: " + m.node + ": " + text)
		}
		m.part = slices.Clone(rest)
	}
}

func (m *taskMessages) last() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line
}
