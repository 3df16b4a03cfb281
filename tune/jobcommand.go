package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// command is what starts the trial.
func (t *jobTrial) command() ([]string, error) {
	j := t.jobs
	program := j.Command
	if program == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("tune: find this program: %w", err)
		}
		program = append([]string{self}, os.Args[1:]...)
	}
	if j.CommandFor != nil {
		var err error
		if program, err = j.CommandFor(slices.Clone(program), t.attempt); err != nil {
			return nil, fmt.Errorf("tune: command of trial %d: %w", t.attempt.Trial, err)
		}
	}
	if len(program) == 0 || program[0] == "" {
		return nil, errors.New("tune: Jobs.Command is empty")
	}
	if j.HostFile != "" { // on a host this program is in the copy of the current folder
		if here, err := os.Getwd(); err == nil && filepath.IsAbs(program[0]) {
			if rel, err := filepath.Rel(here, program[0]); err == nil && !strings.HasPrefix(rel, "..") {
				program[0] = "./" + rel
			}
		}
	}
	if j.NoServers {
		return program, nil
	}
	launch, err := j.launchProgram()
	if err != nil {
		return nil, err
	}
	r := t.resources
	args := []string{launch, "--output", "json", "--status-listen", "off", "--result", filepath.Join(t.folder, resultFile), "-n", strconv.Itoa(t.workers()), "-s", strconv.Itoa(r.Servers), "--start-timeout", r.StartTimeout.String(),
		"--stop-timeout", t.attempt.stopAfter().String(), "--env-worker", remote.AddressVariable, "--env-worker", remote.TokenVariable}
	if t.elastic != nil {
		args = append(args, t.elasticFlags()...)
	}
	if t.carried {
		args = append(args, "--carry")
	}
	if j.HostFile == "" {
		args = append(args, "--launcher", "local") // also within an allocation of Slurm, which would be the default
	}
	if j.HostFile != "" {
		file := filepath.Join(t.folder, "hosts")
		lines, err := t.hosts()
		if err != nil {
			return nil, fmt.Errorf("tune: trial %d: %w", t.attempt.Trial, err)
		}
		if err := os.WriteFile(file, []byte(lines), 0o666); err != nil {
			return nil, fmt.Errorf("tune: trial %d: %w", t.attempt.Trial, err)
		}
		args = append(args, "-H", file, "--host-ip", j.Address)
		if j.SSH != "" {
			args = append(args, "--ssh-command", j.SSH)
		}
		if j.Folder != "" {
			flags, err := t.syncFlags()
			if err != nil {
				return nil, err
			}
			args = append(args, flags...)
		}
	}
	if t.grant != nil && (j.Cluster == nil || t.resources.GPUs == 0) { // else the step has set the variable
		args = append(args, gpuFlags(t.grant)...)
	}
	args = append(append(args, j.LaunchFlags...), "--")
	return append(args, program...), nil
}

// hosts is the hosts file that launch gets. An elastic job begins on the first one, and may use the
// others later.
func (t *jobTrial) hosts() (string, error) {
	var all []jobs.NodeSlots
	if t.elastic == nil {
		for _, p := range t.grant.Parts {
			all = append(all, jobs.NodeSlots{Node: p.Node, Slots: t.resources.Slots})
		}
	} else {
		nodes, err := t.jobs.Slots(context.Background(), t.attempt.Resources)
		if err != nil {
			return "", err
		}
		all = append(all, jobs.NodeSlots{Node: t.begins.Node, Slots: t.begins.Replicas})
		for _, n := range nodes {
			if n.Node == t.begins.Node {
				all[0].Slots = max(n.Slots, t.begins.Replicas)
			} else {
				all = append(all, n)
			}
		}
		t.elastic.use(all)
	}
	var lines strings.Builder
	for _, n := range all {
		h, err := hosts.ParseHost(n.Node)
		if err != nil {
			return "", err
		}
		h.Slots = n.Slots
		fmt.Fprintln(&lines, h.Entry())
	}
	return lines.String(), nil
}

// elasticFlags make the job one whose replicas come and go. launch knows no limits of their number:
// with fewer than the scheduler's least, after a loss, the job goes on until it gets others, and
// one that moves to another host has more for a moment.
func (t *jobTrial) elasticFlags() []string {
	return []string{"--elastic-training-enabled", "--elastic-trial", "--join-timeout", t.resources.StartTimeout.String()}
}

// gpuFlags are the flags by which launch gives the workers of a trial their GPUs. UUIDs launch
// divides over the workers of each host. GPUs that this machine's CUDA_VISIBLE_DEVICES names by
// number are in that variable (environment), and seen by all workers until tune.Run divides them.
func gpuFlags(g *slots.Grant) []string {
	var all []string
	for _, p := range g.Parts {
		all = append(all, p.GPUs...)
	}
	switch {
	case len(all) == 0:
		return []string{"--gpus", "0"}
	case slices.ContainsFunc(all, func(id string) bool { return !gpus.IsUUID(id) }):
		return []string{"--env-worker", gpus.Variable}
	}
	return []string{"--gpus", strings.Join(all, ",")}
}

// launchProgram finds launch.
func (j *Jobs) launchProgram() (string, error) {
	if j.Launch != "" {
		return filepath.Abs(j.Launch)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "launch")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return beside, nil
		}
	}
	path, err := exec.LookPath("launch")
	if err != nil {
		return "", fmt.Errorf("tune: the launch program is neither beside this program nor in PATH; build it (go build github.com/paragon-train/paragon/launch) or set Jobs.Launch: %w", err)
	}
	return path, nil
}
