package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// StepConfig says what a Step runs.
type StepConfig struct {
	// Nodes are the nodes, each of which gets one process.
	Nodes []string

	// Command is a program and its arguments. All nodes must have the program.
	Command []string

	// Env are NAME=VALUE, besides those of this process. No command line shows them.
	Env []string

	// Dir is the working folder; empty: it is that of this process.
	Dir string

	// Output gets what the processes print, line by line.
	Output io.Writer

	Logger *slog.Logger
}

// A Step is an srun that runs one process on each node, beside whatever else the allocation runs.
// Its methods may be called together.
//
// The processes may outlive it: those of an srun that was killed are told nothing for 40 s and
// more. They must end by themselves.
type Step struct {
	cmd *exec.Cmd

	// done is closed when srun has ended.
	done chan struct{}

	// err is set before done is closed.
	err error

	out *report
}

// srunOptions make a step that has all that the allocation has on its nodes, takes nothing away
// from other steps, and goes on when some of its processes or nodes have ended.
var srunOptions = []string{
	"--overlap", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--no-kill", "--wait=0", "--mem=0", "--cpu-bind=none", "--mpi=none",
	"--input=none", "--unbuffered", "--export=ALL", "--job-name=launch-agents",
}

// notPassedOn are variables that srun reads as options. A script sets them for steps of its own, or
// Slurm for those of the script.
var notPassedOn = []string{
	"SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND", "SLURM_DISTRIBUTION", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_EXPORT_ENV", "SLURM_HINT",
	"SLURM_LABELIO", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET",
	"SLURM_RELATIVE", "SLURM_STDERRMODE", "SLURM_STDOUTMODE", "SLURM_TASK_EPILOG", "SLURM_TASK_PROLOG", "SLURM_THREADS_PER_CORE", "SLURM_TIMELIMIT",
}

// StartStep starts a step on nodes of this process's allocation.
func StartStep(cfg StepConfig) (*Step, error) {
	srun, err := exec.LookPath("srun")
	if err != nil {
		return nil, fmt.Errorf("there is no srun on the PATH: run launch where Slurm's commands are, or reach the hosts in another way (-H FILE)")
	}
	n := strconv.Itoa(len(cfg.Nodes))
	args := append(slices.Clone(srunOptions), "--nodes="+n, "--ntasks="+n, "--nodelist="+strings.Join(cfg.Nodes, ","))
	if cfg.Dir != "" {
		args = append(args, "--chdir="+cfg.Dir)
	}
	cmd := exec.Command(srun, append(append(args, "--"), cfg.Command...)...)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains(notPassedOn, name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, cfg.Env...)
	// In a group of its own, where no terminal's Ctrl-C reaches it: launch tells the agents
	// when the job ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Output == nil {
		cfg.Output = io.Discard
	}
	s := &Step{cmd: cmd, done: make(chan struct{}), out: &report{log: cfg.Logger, processes: cfg.Output, failed: make(chan struct{})}}
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start srun: %w", err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { s.out.read(read) })
	go func() {
		err := cmd.Wait()
		write.Close()
		reading.Wait()
		if err != nil {
			s.err = s.out.explain(err)
		}
		close(s.done)
	}()
	return s, nil
}

// Name is the program's name, for messages.
func (*Step) Name() string { return "srun" }

// Command is how one reaches a node of the allocation.
func Command(h hosts.Host) string { return "srun --overlap --nodelist=" + h.Name }

// Done is closed when srun has ended.
func (s *Step) Done() <-chan struct{} { return s.done }

// Err is why srun ended, after Done; nil: all its processes exited with 0.
func (s *Step) Err() error { return s.err }

// Failed is closed when srun says that one of its processes failed.
func (s *Step) Failed() <-chan struct{} { return s.out.failed }

// Why is what went wrong so far.
func (s *Step) Why() error {
	select {
	case <-s.done:
		if s.err == nil {
			return errors.New("srun has ended with exit code 0")
		}
		return s.err
	default:
		return s.out.explain(nil)
	}
}

// Close waits until the step has ended, as its processes were told to; once ctx has ended it stops
// them.
func (s *Step) Close(ctx context.Context) {
	select {
	case <-s.done:
		return
	case <-ctx.Done():
	}
	s.out.mute()

	// On SIGTERM srun stops its step.
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(time.Second):
		s.cmd.Process.Kill()
		<-s.done
	}
}
