package trialjob

import (
	"errors"
	"fmt"
	"os"
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

// command is what starts the trial: launch with its flags and the workers' command, or that command
// alone.
func (t *trial) command() ([]string, error) {
	program, err := t.Command(t.state.word())
	if err != nil {
		return nil, err
	}
	if len(program) == 0 || program[0] == "" {
		return nil, errors.New("tune: Jobs.Command is empty")
	}
	if t.settings.Place == Hosts {
		program[0] = belowHere(program[0])
	}
	if t.settings.NoServers {
		return program, nil
	}
	launch, err := t.settings.Launch()
	if err != nil {
		return nil, err
	}
	args := append([]string{launch}, t.jobFlags()...)
	switch t.settings.Place {
	case Hosts:
		flags, err := t.hostFlags()
		if err != nil {
			return nil, err
		}
		args = append(args, flags...)
	default:
		// The job is local also within an allocation of Slurm, which would be the default
		// there.
		args = append(args, "--launcher", "local")
	}
	// A task with GPUs has set the variable itself.
	if t.Grant != nil && (t.settings.Place != ClusterNodes || t.Resources.GPUs == 0) {
		args = append(args, gpuFlags(t.Grant)...)
	}
	args = append(append(args, t.settings.LaunchFlags...), "--")
	return append(args, program...), nil
}

// belowHere is the path of a program as a host knows it that has a copy of the current folder: a
// program in the current folder is relative to it there.
func belowHere(program string) string {
	here, err := os.Getwd()
	if err != nil || !filepath.IsAbs(program) {
		return program
	}
	rel, err := filepath.Rel(here, program)
	if err != nil || strings.HasPrefix(rel, "..") {
		return program
	}
	return "./" + rel
}

// jobFlags are launch's about the job itself. The replicas of an elastic trial come and go without
// limits that launch knows: with fewer than the scheduler's least, after a loss, the job goes on
// until it gets others, and one that moves to another host has more for a moment.
func (t *trial) jobFlags() []string {
	r := t.Resources
	flags := []string{"--output", "json", "--status-listen", "off", "--result", filepath.Join(t.folder, resultFile), "-n", strconv.Itoa(t.workers()), "-s", strconv.Itoa(r.Servers), "--start-timeout", r.StartTimeout.String(),
		"--stop-timeout", t.stopAfter().String(), "--env-worker", remote.AddressVariable, "--env-worker", remote.TokenVariable}
	if t.elastic() {
		flags = append(flags, "--elastic-training-enabled", "--elastic-trial", "--join-timeout", r.StartTimeout.String())
	}
	if t.state.carried {
		flags = append(flags, "--carry")
	}
	return flags
}

// hostFlags write the job's hosts file, and are launch's about its hosts.
func (t *trial) hostFlags() ([]string, error) {
	file := filepath.Join(t.folder, "hosts")
	lines, err := t.hosts()
	if err == nil {
		err = os.WriteFile(file, []byte(lines), 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("tune: trial %d: %w", t.Trial, err)
	}
	flags := []string{"-H", file, "--host-ip", t.settings.Address}
	if t.settings.SSH != "" {
		flags = append(flags, "--ssh-command", t.settings.SSH)
	}
	if t.settings.Folder == "" {
		return flags, nil
	}
	sync, err := t.syncFlags()
	return append(flags, sync...), err
}

// hosts is the hosts file that launch gets. An elastic job begins on the first one, and may use the
// others later.
func (t *trial) hosts() (string, error) {
	var all []jobs.NodeSlots
	if t.elastic() {
		all = t.elasticHosts()
		t.job.Use(all)
	} else {
		for _, p := range t.Grant.Parts {
			all = append(all, jobs.NodeSlots{Node: p.Node, Slots: t.Resources.Slots})
		}
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

// elasticHosts are the hosts of an elastic job, the one first on which it begins.
func (t *trial) elasticHosts() []jobs.NodeSlots {
	all := []jobs.NodeSlots{{Node: t.begins.Node, Slots: t.begins.Replicas}}
	for _, n := range t.runner.Nodes.Slots(Unit(t.Resources)) {
		if n.Node == t.begins.Node {
			all[0].Slots = max(n.Slots, t.begins.Replicas)
		} else {
			all = append(all, n)
		}
	}
	return all
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
