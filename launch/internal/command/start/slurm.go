package start

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command/agent"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// openSlurm starts an agent on each node of the allocation.
func openSlurm(ctx context.Context, o *options.Options, e Environment) (method.Method, error) {
	a := o.Start.Slurm
	e.Log.Info(fmt.Sprintf("Slurm job %s: %s, %s (--launcher local runs all on this machine)", a.Job, plural.Of(len(a.Nodes), "node"), plural.Of(o.Workers, "worker")))
	l, err := listen(ctx, o, e, "")
	if err != nil {
		return nil, err
	}
	files, err := slurm.MakeJoinFiles(a.Job, l.secret.Encode(), l.Addresses())
	if err != nil {
		e.Log.Warn(fmt.Sprintf("nodes of other Slurm jobs cannot join this one (launch slurm join): %v", err))
	}
	j := &slurmJob{
		hosts: o.Start.Hosts, keeps: options.GoesOnWithout(o.Elastic.OnWorkerLoss, o.Elastic.Enabled), spot: o.Survival.Spot,
		l: l, e: e, files: files, again: make(map[string]*slurm.Step),
	}
	step, err := j.startAgents(a.Names())
	if err != nil {
		files.Remove()
		l.Close()
		return nil, fmt.Errorf("launch: %w", err)
	}
	j.Started = method.NewStarted(agentsConfig(o, l, e), o.Start.Hosts, step, slurm.Command)
	return j, nil
}

// A slurmJob is the nodes of an allocation with the files of their job.
type slurmJob struct {
	*method.Started

	// hosts are the nodes.
	hosts []hosts.Host

	// keeps says that the job goes on without a lost node.
	keeps bool

	// spot is the provider whose notices agents watch for; empty: none.
	spot string

	l     *listener
	e     Environment
	files *slurm.JoinFiles

	// mu guards again: Follow and Close may run at once.
	mu sync.Mutex

	// again has the last step of a node whose agent was lost.
	again map[string]*slurm.Step
}

// startAgents starts an agent on each of some nodes.
func (j *slurmJob) startAgents(nodes []string) (*slurm.Step, error) {
	agent := append([]string{j.e.Executable, "agent", "--join", strings.Join(j.l.Addresses(), ",")}, agent.SpotArguments(j.spot)...)
	return slurm.StartStep(slurm.StepConfig{
		Nodes: nodes, Command: agent,
		Env: []string{dialin.SecretVariable + "=" + j.l.secret.Encode()}, Dir: j.e.Folder, Output: j.e.AgentLog, Logger: j.e.Log,
	})
}

// Follow implements method.Follower. In a job that goes on without a lost node, the agent of one
// that may still live is started again.
func (j *slurmJob) Follow(ctx context.Context, files *hostworker.Files) {
	if j.keeps {
		var keeping sync.WaitGroup
		keeping.Go(func() { j.keepAgents(ctx, files) })
		defer keeping.Wait()
	}
	j.Started.Follow(ctx, files)
}

// againAfter are the times from the loss of an agent, and from each attempt to start it again, to
// the next one.
var againAfter = []time.Duration{time.Second, 15 * time.Second, time.Minute}

// keepAgents starts agents again that were lost, until ctx ends. Those of nodes that were removed
// from the job are left alone; files may be nil.
func (j *slurmJob) keepAgents(ctx context.Context, files *hostworker.Files) {
	// attempts counts the starts of a node's agent since it was there, and next is when to start it
	// again; zero: its loss was not seen yet.
	attempts, next := make(map[string]int), make(map[string]time.Time)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		// Slurm does not tell of a node that is lost; its agent is missing.
		there := j.l.Agents()
		for _, h := range j.hosts {
			n := attempts[h.Name]
			switch {
			case slices.ContainsFunc(there, func(i dialin.Info) bool { return i.Host().Same(h) }),
				files != nil && !slices.ContainsFunc(files.Hosts(), h.Same):
				delete(attempts, h.Name)
				delete(next, h.Name)
			case n == len(againAfter): // given up
			case next[h.Name].IsZero():
				next[h.Name] = time.Now().Add(againAfter[0])
			case time.Now().After(next[h.Name]):
				if attempts[h.Name]++; n+1 < len(againAfter) {
					next[h.Name] = time.Now().Add(againAfter[n+1])
				}
				j.startAgain(h.Name)
			}
		}
	}
}

// startAgain starts the agent of a node.
func (j *slurmJob) startAgain(node string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if before := j.again[node]; before != nil {
		select {
		case <-before.Done():
		default:
			// The one that was started last may still come.
			return
		}
	}
	j.e.Log.Info(fmt.Sprintf("node %s: starting its agent again", node))
	step, err := j.startAgents([]string{node})
	if err != nil {
		j.e.Log.Warn(fmt.Sprintf("node %s: %v", node, err))
		return
	}
	j.again[node] = step
}

// Close implements method.Method.
func (j *slurmJob) Close() error {
	// Agents that are told that the job is over may read the files once more.
	err := j.Started.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, step := range j.again {
		step.Close(ctx)
	}
	j.files.Remove()
	j.l.removeAddresses()
	return err
}
