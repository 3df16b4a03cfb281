package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

// localName is what this machine is called as a node.
const localName = "local"

// hostTimeout bounds a question to a host. A host that does not have this launch program yet gets
// it first.
const hostTimeout = time.Minute

// slowAnswer is after which time without an answer a search says which hosts it waits for before it
// starts.
const slowAnswer = 5 * time.Second

// agentLease is after which time without a sign of this process a host ends what this process runs
// there.
const agentLease = 4 * time.Second

// findNodes makes a node of each host, or of this machine.
func (j *Jobs) findNodes(ctx context.Context) (err error) {
	if err := agent.Supported(); err != nil {
		return fmt.Errorf("tune: Jobs: %w", withoutLaunch{err})
	}
	if j.nodes, err = slots.New(); err != nil {
		return err
	}
	switch {
	case j.Cluster != nil && j.HostFile != "":
		return errors.New("tune: Jobs.HostFile and Jobs.Cluster are set, want one of them")
	case j.Cluster != nil && j.Address == "":
		return errors.New("tune: Jobs.Cluster is set, but Jobs.Address is not: at which address do the nodes reach this machine?")
	case j.Cluster != nil:
		all, err := j.tasks().nodes()
		for _, n := range all {
			err = errors.Join(err, j.nodes.Add(n))
		}
		return err
	case j.HostFile == "":
		return j.nodes.Add(j.localNode())
	}
	switch {
	case j.Address == "":
		return errors.New("tune: Jobs.HostFile is set, but Jobs.Address is not: at which address do the hosts reach this machine?")
	case j.HostTimeout < 0:
		return fmt.Errorf("tune: Jobs.HostTimeout is %v: want 0 (%v) or more", j.HostTimeout, defaultHostTimeout)
	case j.NoServers && len(j.LaunchFlags) > 0:
		return errors.New("tune: Jobs.LaunchFlags are for jobs with servers: got Jobs.NoServers, too")
	}
	all, err := hosts.Read(j.HostFile)
	if err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	if j.remote, err = j.newRemote(); err != nil {
		return err
	}
	return j.findHosts(ctx, hosts.Merge(all))
}

// findHosts asks all hosts, and sets those aside that cannot be used.
func (j *Jobs) findHosts(ctx context.Context, all []hosts.Host) error {
	j.wake = make(chan struct{}, 1)
	if j.ask == nil {
		j.ask = j.askHost
	}
	found := make([]slots.Node, len(all))
	errs := make([]error, len(all))
	var asking sync.WaitGroup
	answered := make([]atomic.Bool, len(all))
	slow := time.AfterFunc(slowAnswer, func() {
		var names []string
		for i, h := range all {
			if !answered[i].Load() {
				names = append(names, h.String())
			}
		}
		if len(names) == 0 {
			return // the last one has just answered
		}
		j.logger().Info("tune: waiting for hosts to answer", "hosts", strings.Join(names, " "), "at most", hostTimeout)
	})
	for i, h := range all {
		asking.Go(func() {
			found[i], _, errs[i] = j.inspect(ctx, h)
			answered[i].Store(true)
		})
	}
	asking.Wait()
	slow.Stop()
	j.hostMu.Lock()
	defer j.hostMu.Unlock()
	for i, h := range all {
		x := &searchHost{Host: h, back: time.Now()}
		j.all = append(j.all, x)
		if errs[i] == nil {
			errs[i] = j.nodes.Add(found[i])
		}
		if errs[i] != nil {
			x.fail(errs[i], x.back)
			j.logger().Warn("tune: a host cannot be used and is set aside; it is probed until it answers", "host", h.String(), "error", errs[i])
		}
	}
	if len(j.nodes.Usage()) == 0 {
		return fmt.Errorf("tune: hosts file %s: no host can be used: %w", j.HostFile, errors.Join(errs...))
	}
	return nil
}

// localNode is this machine, with the processors and GPUs that this process may use.
func (j *Jobs) localNode() slots.Node {
	n := slots.Node{Name: localName, CPUs: affinity.Own()}
	var err error
	if n.GPUs, err = gpus.Usable(os.LookupEnv, gpus.Installed); err != nil {
		j.logger().Warn("tune: the GPUs of this machine cannot be listed; trials get none", "error", err)
	}
	return n
}

// newRemote makes what reaches hosts by ssh.
func (j *Jobs) newRemote() (*ssh.Method, error) {
	command := cmp.Or(j.SSH, os.Getenv(ssh.Variable), "ssh")
	words, err := ssh.SplitWords(command)
	if err == nil && len(words) == 0 {
		err = errors.New("it has no words")
	}
	if err != nil {
		return nil, fmt.Errorf("tune: the ssh client %q is not a command: %w", command, err)
	}
	launch, err := j.launchProgram()
	if err != nil {
		return nil, err
	}
	return ssh.New(ssh.Config{Command: words, Executable: launch, AgentArgs: []string{"agent", agentLease.String()}, Logger: j.logger()}), nil
}

// onHost connects to a host and calls f.
func (j *Jobs) onHost(ctx context.Context, h hosts.Host, f func(context.Context, *ssh.Machine) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, hostTimeout, fmt.Errorf("no answer within %v", hostTimeout))
	defer cancel()
	m, err := j.remote.Dial(ctx, h)
	if err == nil {
		err = f(ctx, m)
		if closed := m.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return withoutLaunch{err}
	}
	return nil
}

// askHost asks a host for its processors and GPUs.
func (j *Jobs) askHost(ctx context.Context, h hosts.Host) (has agent.Answer, err error) {
	err = j.onHost(ctx, h, func(ctx context.Context, m *ssh.Machine) (err error) {
		has, err = m.Ask(ctx, agent.Question{Hardware: true})
		return err
	})
	return has, err
}

// nodeOf makes a node of those processors and GPUs of a host that the hosts file allows.
func nodeOf(h hosts.Host, has agent.Answer) (slots.Node, error) {
	n := slots.Node{Name: h.String(), Slots: h.Slots, CPUs: has.CPUs}
	if h.CPUs > 0 {
		n.CPUs = n.CPUs[:min(h.CPUs, len(n.CPUs))]
	}
	switch {
	case h.GPUs == hosts.NoGPUs:
		return n, nil
	case has.GPUErr != "":
		return n, fmt.Errorf("%s; to use the host without GPUs write gpus=0 in the hosts file", has.GPUErr)
	case h.GPUs > len(has.GPUs):
		return n, fmt.Errorf("the hosts file says gpus=%d, and the host has %d", h.GPUs, len(has.GPUs))
	}
	n.GPUs = has.GPUs
	if h.GPUs > 0 {
		n.GPUs = n.GPUs[:h.GPUs]
	}
	return n, nil
}

// Nodes is a table of the nodes: what each has and how much of it is in use.
func (j *Jobs) Nodes() (metrics.Table, error) {
	t := metrics.Table{Columns: []string{"node", "CPUs", "in use", "GPUs", "in use", "slots", "in use", "state"}}
	if err := j.prepare(context.Background()); err != nil {
		return t, err
	}
	j.hostMu.Lock()
	defer j.hostMu.Unlock()
	away := make(map[string]string) // states of hosts that are set aside
	for _, h := range j.all {
		if h.why != nil {
			away[h.String()] = fmt.Sprintf("set aside: %v", h.why)
		}
	}
	for _, u := range j.nodes.Usage() {
		state := cmp.Or(away[u.Name], "ready")
		if u.Leaving {
			state = "leaving"
		}
		delete(away, u.Name)
		limit := "any"
		if u.Slots > 0 {
			limit = fmt.Sprint(u.Slots)
		}
		t.Row(u.Name, u.CPUs, u.UsedCPUs, u.GPUs, u.UsedGPUs, limit, u.UsedSlots, state)
	}
	for _, h := range j.all { // those that have no node
		if state := away[h.String()]; state != "" {
			t.Row(h.String(), nil, nil, nil, nil, nil, nil, state)
		}
	}
	return t, nil
}

// usage tells about all nodes; none before they were found.
func (j *Jobs) usage() []slots.Usage {
	if j.prepare(context.Background()) != nil {
		return nil
	}
	return j.nodes.Usage()
}

// Room is how many trials with these resources can run at once, at least 1.
func (j *Jobs) Room(given Resources) (int, error) {
	if err := j.prepare(context.Background()); err != nil {
		return 0, err
	}
	r := j.request(given)
	n := 0 // parts of trials, one a host
	for _, u := range j.nodes.Usage() {
		if fit := u.Fit(r); !u.Leaving {
			n += min(fit, math.MaxInt32)
		}
	}
	return max(n/r.Hosts, 1), nil
}
