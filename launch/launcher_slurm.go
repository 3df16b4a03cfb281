package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/agent/dialin"
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
	case c.IsSet("ssh-command"):
		return usagef("--ssh-command is for --launcher ssh; on Slurm srun starts the agents")
	case c.IsSet("agents"):
		return usagef("--agents is for --launcher agents; on Slurm there is one agent for each of the %d nodes", len(o.allocation.Nodes))
	case tasks > 0 && o.workers > tasks:
		return usagef("-n is %d, and the allocation of job %s has %d tasks; lower -n, or ask Slurm for more (--ntasks, --ntasks-per-node)", o.workers, o.allocation.Job, tasks)
	}
	o.hosts = o.allocation.Hosts()
	return o.readListen(c)
}

// slurmJobFolder is where launch leaves the secret and the addresses of a job on Slurm for agents of other jobs and for launch ctl: in the home directory, which the
// nodes of a cluster share.
func slurmJobFolder(job string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("launch: the folder of Slurm job %s: %w", job, err)
	}
	return filepath.Join(home, ".paragon", "slurm", job), nil
}

func openSlurm(ctx context.Context, o *options, e startEnvironment) (method.Method, error) {
	a := o.allocation
	e.log.Info(fmt.Sprintf("job %s of Slurm: %d workers on %d nodes with %d tasks (--launcher local runs all on this machine)", a.Job, o.workers, len(a.Nodes), a.Tasks()))
	folder, err := slurmJobFolder(a.Job)
	if err != nil {
		return nil, err
	}
	if o.agent.secretFile == "" || o.agent.addressFile == "" {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("launch: the folder of Slurm job %s: %w", a.Job, err)
		}
	}
	if o.agent.addressFile == "" {
		o.agent.addressFile = filepath.Join(folder, slurm.AddressFile)
	}
	var secret dialin.Secret
	made := false
	if o.agent.secretFile == "" {
		o.agent.secretFile = filepath.Join(folder, slurm.SecretFile)
		made = true
	}
	if secret, _, err = dialin.ReadOrMakeSecret(o.agent.secretFile); err != nil {
		return nil, err
	}
	l, err := o.listenForAgents(ctx, e, "")
	if err != nil {
		return nil, err
	}
	step, err := slurm.StartStep(slurm.StepConfig{
		Nodes: a.Names(), Command: []string{e.executable, "agent", "--join", strings.Join(l.Addresses(), ",")},
		Env: []string{dialin.SecretVariable + "=" + secret.Encode()}, Dir: e.folder, Output: e.agentLog, Logger: e.log,
	})
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("launch: %w", err)
	}
	return &slurmJob{method.NewStarted(o.agentsConfig(l, e), o.hosts, step, slurm.Command), o, l, folder, made}, nil
}

// A slurmJob is the nodes of an allocation with the files of their job.
type slurmJob struct {
	*method.Started
	o      *options
	l      *listener
	folder string
	made   bool // the secret is in folder
}

// Close implements method.Method.
func (j *slurmJob) Close() error {
	removeAddresses(j.o.agent.addressFile, j.l.Addresses())
	if j.made {
		os.Remove(j.o.agent.secretFile)
	}
	os.Remove(j.folder) // if it is empty
	return j.Started.Close()
}
