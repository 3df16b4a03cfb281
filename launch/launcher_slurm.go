package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/agent/dialin"
	"github.com/paragon-train/paragon/internal/lockfile"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// slurmMethod is the value of --launcher.
const slurmMethod = "slurm"

// inSlurm reports whether the job runs on an allocation of Slurm where --launcher is not given. A launch that a process of another job starts runs
// on that process's host.
func inSlurm(*cli.Context) bool { return os.Getenv("PARAGON_JOB") == "" && slurm.Inside(os.LookupEnv) }

// setSlurmWorkers has a job on an allocation begin with a worker for each of its tasks, unless -n says something else.
func (o *options) setSlurmWorkers(c *cli.Context) error {
	if m, _ := startMethodOf(c); c.IsSet("num-workers") || o.check || m.name != slurmMethod {
		return nil
	}
	a, err := slurm.Read(o.lookup)
	if err != nil {
		return usageError{fmt.Errorf("launch: --launcher slurm: %w", err)}
	}
	if o.workers = a.Tasks(); o.workers == 0 {
		o.workers = len(a.Nodes)
	}
	return nil
}

func (o *options) readSlurm(c *cli.Context) error {
	o.remote = true
	var err error
	if o.allocation, err = slurm.Read(o.lookup); err != nil {
		return usageError{fmt.Errorf("launch: --launcher slurm: %w", err)}
	}
	switch tasks := o.allocation.Tasks(); {
	case o.hostfile != "":
		return usagef("--launcher slurm runs on the nodes of the allocation; leave out -H %s, or use --launcher ssh", o.hostfile)
	case c.IsSet("sync-dst-dir"):
		return usagef("--sync-dst-dir copies over ssh; on Slurm start launch in a folder that all nodes share, and leave it out")
	case c.IsSet("scheduler-host"):
		return usagef("--scheduler-host is for --launcher ssh; on Slurm the scheduler runs beside launch, on the first node of a batch job")
	case sshCommandGiven(c):
		return usagef("--ssh-command is for --launcher ssh; on Slurm srun starts the agents")
	case c.IsSet("agents"):
		return usagef("--agents is for --launcher agents; on Slurm there is one agent for each of the %d nodes", len(o.allocation.Nodes))
	case tasks > 0 && o.workers > tasks:
		return usagef("-n is %d, and the allocation of job %s has %d tasks; lower -n, or ask Slurm for more (--ntasks, --ntasks-per-node)", o.workers, o.allocation.Job, tasks)
	}
	o.hosts = o.allocation.Hosts()
	return o.readListen(c)
}

func openSlurm(ctx context.Context, o *options, e startEnvironment) (method.Method, error) {
	a := o.allocation
	e.log.Info(fmt.Sprintf("Slurm job %s: %s, %s (--launcher local runs all on this machine)", a.Job, count(len(a.Nodes), "node"), count(o.workers, "worker")))
	l, err := o.listenForAgents(ctx, e, "")
	if err != nil {
		return nil, err
	}
	files, err := makeSlurmFiles(a.Job, l)
	if err != nil {
		e.log.Warn(fmt.Sprintf("no other job's nodes can join this one (launch slurm join): %v", err))
	}
	agent := append([]string{e.executable, "agent", "--join", strings.Join(l.Addresses(), ",")}, spotArguments(o.spot)...)
	step, err := slurm.StartStep(slurm.StepConfig{
		Nodes: a.Names(), Command: agent,
		Env: []string{dialin.SecretVariable + "=" + l.secret.Encode()}, Dir: e.folder, Output: e.agentLog, Logger: e.log,
	})
	if err != nil {
		files.remove()
		l.Close()
		return nil, fmt.Errorf("launch: %w", err)
	}
	return &slurmJob{method.NewStarted(o.agentsConfig(l, e), o.hosts, step, slurm.Command), o, l, files}, nil
}

// A slurmJob is the nodes of an allocation with the files of their job.
type slurmJob struct {
	*method.Started
	o     *options
	l     *listener
	files *slurmFiles
}

// Close implements method.Method.
func (j *slurmJob) Close() error {
	err := j.Started.Close() // agents that are told that the job is over may read the files once more
	j.files.remove()
	if path := j.o.agent.addressFile; path != "" {
		removeAddresses(path, j.l.Addresses())
	}
	return err
}

// slurmFiles are the secret and the addresses of a job on Slurm, in its folder: agents of other jobs join with them.
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
	os.Remove(secret) // of a launch that was killed
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
