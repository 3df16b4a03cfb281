package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/affinity"
	"github.com/paragon-train/paragon/internal/agent"
	"github.com/paragon-train/paragon/internal/gpus"
	"github.com/paragon-train/paragon/internal/hosts"
	"github.com/paragon-train/paragon/internal/ssh"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

// localName is what this machine is called as a node.
const localName = "local"

// hostTimeout bounds a question to a host. A host that does not have this launch program yet gets it first.
const hostTimeout = time.Minute

// agentLease is after which time without a sign of this process a host ends what this process runs there.
const agentLease = 4 * time.Second

// findNodes makes a node of each host, or of this machine.
func (j *Jobs) findNodes(ctx context.Context) (err error) {
	if j.nodes, err = slots.New(); err != nil {
		return err
	}
	switch {
	case j.Steps != nil && j.HostFile != "":
		return errors.New("tune: Jobs.HostFile and Jobs.Steps are set, want one of them")
	case j.Steps != nil && j.Address == "":
		return errors.New("tune: Jobs.Steps is set, but Jobs.Address is not: at which address do the nodes reach this machine?")
	case j.Steps != nil:
		all, err := j.Steps.nodes()
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
	case j.NoServers:
		return errors.New("tune: Jobs.NoServers runs trials on this machine alone: leave out Jobs.HostFile")
	}
	all, err := hosts.Read(j.HostFile)
	if err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	if j.remote, err = j.newRemote(); err != nil {
		return err
	}
	all = hosts.Merge(all)
	found := make([]slots.Node, len(all))
	errs := make([]error, len(all))
	var asking sync.WaitGroup
	for i, h := range all {
		asking.Go(func() { found[i], errs[i] = j.askHost(ctx, h) })
	}
	asking.Wait()
	for i, n := range found {
		if errs[i] != nil {
			j.logger().Warn("tune: a host cannot be used and is left out", "host", all[i].String(), "error", errs[i])
			continue
		}
		if err := j.nodes.Add(n); err != nil {
			return err
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
	if err != nil || len(words) == 0 {
		return nil, fmt.Errorf("tune: the ssh client %q is no command: %v", command, err)
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

// askHost asks a host for its processors and GPUs, and makes a node of those that the hosts file allows.
func (j *Jobs) askHost(ctx context.Context, h hosts.Host) (slots.Node, error) {
	var has agent.Answer
	err := j.onHost(ctx, h, func(ctx context.Context, m *ssh.Machine) (err error) {
		has, err = m.Ask(ctx, agent.Question{Hardware: true})
		return err
	})
	if err != nil {
		return slots.Node{}, err
	}
	return nodeOf(h, has)
}

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

// Add adds a host while a search runs, by a line of a hosts file. Trials may run there at once.
func (j *Jobs) Add(ctx context.Context, line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return errors.New("tune: add a host: got an empty line, want HOST [slots=N] [gpus=N] [cpus=N]")
	}
	h, err := hosts.ParseLine(words)
	if err != nil {
		return fmt.Errorf("tune: add a host: %w", err)
	}
	if err := j.prepare(ctx); err != nil {
		return err
	}
	if j.remote == nil {
		return fmt.Errorf("tune: add host %s: Jobs.HostFile is not set: trials run on this machine alone", h)
	}
	node, err := j.askHost(ctx, h)
	if err != nil {
		return fmt.Errorf("tune: add host %s: %w", h, err)
	}
	if err := j.nodes.Add(node); err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	j.change(fmt.Sprintf("host %s was added", h))
	return nil
}

// Remove removes a host: no more trials start there, and those that run there run to their end.
func (j *Jobs) Remove(host string) error {
	if err := j.prepare(context.Background()); err != nil {
		return err
	}
	if h, err := hosts.ParseHost(host); err == nil {
		if known, ok := j.known(h); ok {
			host = known.String()
		}
	}
	if err := j.nodes.Drain(host); err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	j.change(fmt.Sprintf("host %s was removed", host))
	return nil
}

// hosts are those of the nodes, in their order; none if trials run on this machine.
func (j *Jobs) hosts() (all []hosts.Host) {
	if j.HostFile == "" {
		return nil
	}
	for _, u := range j.nodes.Usage() {
		if h, err := hosts.ParseHost(u.Name); err == nil { // a node's name is a host's String
			all = append(all, h)
		}
	}
	return all
}

// known is a host as the nodes spell it.
func (j *Jobs) known(h hosts.Host) (hosts.Host, bool) {
	all := j.hosts()
	if i := slices.IndexFunc(all, h.Same); i >= 0 {
		return all[i], true
	}
	return h, false
}

// Nodes is a table of the nodes: what each has and how much of it is in use.
func (j *Jobs) Nodes() (metrics.Table, error) {
	t := metrics.Table{Columns: []string{"node", "CPUs", "in use", "GPUs", "in use", "slots", "in use", "state"}}
	if err := j.prepare(context.Background()); err != nil {
		return t, err
	}
	for _, u := range j.nodes.Usage() {
		state := "ready"
		if u.Leaving {
			state = "leaving"
		}
		limit := "any"
		if u.Slots > 0 {
			limit = fmt.Sprint(u.Slots)
		}
		t.Row(u.Name, u.CPUs, u.UsedCPUs, u.GPUs, u.UsedGPUs, limit, u.UsedSlots, state)
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

// suspect connects to a host that a job has lost, and removes it if that fails: trials that run on it end.
func (j *Jobs) suspect(ctx context.Context, host string) {
	h, err := hosts.ParseHost(host)
	if err != nil {
		return
	}
	known, ok := j.known(h)
	if !ok {
		return
	}
	err = j.onHost(ctx, known, func(context.Context, *ssh.Machine) error { return nil })
	if err != nil && ctx.Err() == nil {
		j.logger().Warn("tune: a host cannot be reached and is removed; add it again when it is back", "host", known.String(), "error", err)
		if j.nodes.Lose(known.String()) == nil { // another trial may have been faster
			j.change(fmt.Sprintf("host %s was lost", known))
		}
	}
}
