package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/files/lockfile"
	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// slurmMethod is the value of --launcher.
const slurmMethod = "slurm"

// inSlurm reports whether the job runs on an allocation of Slurm where --launcher is not given. A
// launch that a process of another job starts runs on that process's host.
func inSlurm(*cli.Context) bool { return os.Getenv("PARAGON_JOB") == "" && slurm.Inside(os.LookupEnv) }

// setSlurmWorkers has a job on an allocation begin with a worker for each of its tasks, unless -n
// says something else.
func (o *options) setSlurmWorkers(c *cli.Context) error {
	if m, _ := startMethodOf(c); c.IsSet("num-workers") || o.check || m.name != slurmMethod {
		return nil
	}
	a, err := slurm.Read(o.slurm.lookup)
	if err != nil {
		return command.Usage(fmt.Errorf("launch: --launcher slurm: %w", err))
	}
	if o.workers = a.Tasks(); o.workers == 0 {
		o.workers = len(a.Nodes)
	}
	return nil
}

func (o *options) readSlurm(c *cli.Context) error {
	o.remote = true
	var err error
	if o.slurm.allocation, err = slurm.Read(o.slurm.lookup); err != nil {
		return command.Usage(fmt.Errorf("launch: --launcher slurm: %w", err))
	}
	switch tasks := o.slurm.allocation.Tasks(); {
	case o.hostfile != "":
		return command.Usagef("--launcher slurm runs on the nodes of the allocation; leave out -H %s, or use --launcher ssh", o.hostfile)
	case c.IsSet("sync-dst-dir"):
		return command.Usagef("--sync-dst-dir copies over ssh; on Slurm start launch in a folder that all nodes share, and leave it out")
	case c.IsSet("scheduler-host"):
		return command.Usagef("--scheduler-host is for --launcher ssh; on Slurm the scheduler runs beside launch, on the first node of a batch job")
	case sshCommandGiven(c):
		return command.Usagef("--ssh-command is for --launcher ssh; on Slurm srun starts the agents")
	case c.IsSet("agents"):
		return command.Usagef("--agents is for --launcher agents; on Slurm there is one agent for each of the %d nodes", len(o.slurm.allocation.Nodes))
	case tasks > 0 && o.workers > tasks:
		return command.Usagef("-n is %d, and the allocation of job %s has %d tasks; lower -n, or ask Slurm for more (--ntasks, --ntasks-per-node)", o.workers, o.slurm.allocation.Job, tasks)
	}
	o.hosts = o.slurm.allocation.Hosts()
	return o.readListen(c)
}

func openSlurm(ctx context.Context, o *options, e startEnvironment) (method.Method, error) {
	a := o.slurm.allocation
	e.log.Info(fmt.Sprintf("Slurm job %s: %s, %s (--launcher local runs all on this machine)", a.Job, plural.Of(len(a.Nodes), "node"), plural.Of(o.workers, "worker")))
	l, err := o.listenForAgents(ctx, e, "")
	if err != nil {
		return nil, err
	}
	files, err := makeSlurmFiles(a.Job, l)
	if err != nil {
		e.log.Warn(fmt.Sprintf("nodes of other Slurm jobs cannot join this one (launch slurm join): %v", err))
	}
	j := &slurmJob{o: o, l: l, e: e, files: files, again: make(map[string]*slurm.Step)}
	step, err := j.startAgents(a.Names())
	if err != nil {
		files.remove()
		l.Close()
		return nil, fmt.Errorf("launch: %w", err)
	}
	j.Started = method.NewStarted(o.agentsConfig(l, e), o.hosts, step, slurm.Command)
	return j, nil
}

// A slurmJob is the nodes of an allocation with the files of their job.
type slurmJob struct {
	*method.Started
	o     *options
	l     *listener
	e     startEnvironment
	files *slurmFiles

	mu sync.Mutex // guards again

	// again has the last step of a node whose agent was lost.
	again map[string]*slurm.Step
}

// startAgents starts an agent on each of some nodes.
func (j *slurmJob) startAgents(nodes []string) (*slurm.Step, error) {
	agent := append([]string{j.e.executable, "agent", "--join", strings.Join(j.l.Addresses(), ",")}, spotArguments(j.o.survival.spot)...)
	return slurm.StartStep(slurm.StepConfig{
		Nodes: nodes, Command: agent,
		Env: []string{dialin.SecretVariable + "=" + j.l.secret.Encode()}, Dir: j.e.folder, Output: j.e.agentLog, Logger: j.e.log,
	})
}

// Follow implements method.Follower. In a job that goes on without a lost node, the agent of one
// that may still live is started again.
func (j *slurmJob) Follow(ctx context.Context, files *hostworker.Files) {
	if e := j.o.elastic; e.Enabled && e.OnWorkerLoss != job.LossFail || e.OnWorkerLoss == job.LossShrink || e.OnWorkerLoss == job.LossWait {
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
	attempts, next := make(map[string]int), make(map[string]time.Time)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		there := j.l.Agents()
		for _, h := range j.o.hosts {
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
			return // it may still start
		}
	}
	j.e.log.Info(fmt.Sprintf("node %s: starting its agent again", node))
	step, err := j.startAgents([]string{node})
	if err != nil {
		j.e.log.Warn(fmt.Sprintf("node %s: %v", node, err))
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
	j.files.remove()
	if path := j.o.agent.addressFile; path != "" {
		removeAddresses(path, j.l.Addresses())
	}
	return err
}

// slurmFiles are the secret and the addresses of a job on Slurm, in its folder: agents of other
// jobs join with them.
type slurmFiles struct {
	folder string
	lock   *os.File // held while launch lives
}

// slurmFolder is the folder of a job, below the home directory, which the nodes of a cluster share.
func slurmFolder(job string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("launch: the folder of Slurm job %s: %w", job, err)
	}
	return filepath.Join(home, ".paragon", "slurm", job), nil
}

// slurmLock is the name of the lock in a job's folder.
const slurmLock = "lock"

// makeSlurmFiles writes the files of a job. The first launch of an allocation that runs has them.
func makeSlurmFiles(job string, l *listener) (*slurmFiles, error) {
	folder, err := slurmFolder(job)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(folder, slurmLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockfile.Take(lock); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	f := &slurmFiles{folder, lock}
	secret := filepath.Join(folder, slurm.SecretFile)

	// The file may be that of a launch that was killed.
	os.Remove(secret)
	err = os.WriteFile(secret, []byte(l.secret.Encode()+"\n"), 0o600)
	if err == nil {
		err = writeAddresses(filepath.Join(folder, slurm.AddressFile), l.Addresses())
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// remove removes the files; nil has none.
func (f *slurmFiles) remove() {
	if f != nil {
		os.RemoveAll(f.folder)
		f.lock.Close()
	}
}

// sweepSlurm removes the files of this job's launch if it was killed.
func sweepSlurm() {
	job := os.Getenv("SLURM_JOB_ID")
	folder, err := slurmFolder(job)
	if job == "" || err != nil {
		return
	}
	lock, err := os.Open(filepath.Join(folder, slurmLock))
	if err != nil {
		return
	}
	defer lock.Close()
	if lockfile.Free(lock) {
		os.RemoveAll(folder)
	}
}
