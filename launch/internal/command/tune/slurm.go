package tune

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/slurm"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
	"github.com/paragon-train/paragon/tune/study"
)

// useAllocation makes the nodes of an allocation of Slurm those of a search, if it runs in one and
// its file names no hosts.
func useAllocation(s *study.Study, lookup func(string) (string, bool), log *slog.Logger) error {
	if s.Jobs.HostFile != "" || !slurm.Inside(lookup) {
		return nil
	}
	if _, ok := s.Config.Scheduler.(tune.Allocator); ok {
		log.Warn("this scheduler's trials are elastic jobs, which cannot run as Slurm steps: they run on this node alone (hosts: FILE reaches others over ssh)")
		return nil
	}
	a, err := slurm.Read(lookup)
	if err != nil {
		return fmt.Errorf("launch: tune: %w", err)
	}
	gpus, err := slurm.GPUs(lookup)
	if err != nil {
		return fmt.Errorf("launch: tune: %w", err)
	}

	// The srun of a step must not take variables of this job for options of its own.
	nodes := &jobs.Cluster{Env: slurm.TrialEnv(os.Environ())}
	nodes.Command = func(r jobs.TaskRequest) []string { return slurm.TrialStep(r.Node, r.CPUs, r.GPUs, r.Overlap) }
	for _, n := range a.Nodes {
		if n.CPUs == 0 {
			return fmt.Errorf("launch: tune: Slurm does not say how many processors the job has on %s: SLURM_JOB_CPUS_PER_NODE is not set; pass Slurm's variables on to launch", n.Name)
		}
		nodes.Nodes = append(nodes.Nodes, jobs.ClusterNode{Name: n.Name, CPUs: n.CPUs, GPUs: gpus})
	}
	// Each trial is started by the launch program on its node, also one without servers.
	if s.Jobs.Launch, err = os.Executable(); err != nil {
		return fmt.Errorf("launch: tune: find own program: %w", err)
	}
	s.Jobs.Cluster, s.Jobs.Address = nodes, ownAddress(lookup)
	log.Info(fmt.Sprintf("Slurm job %s: trials run as steps on %s", a.Job, plural.Of(len(a.Nodes), "node")))
	return nil
}

// ownAddress is an IP address at which the nodes of the allocation reach this one: that of the
// node's name, unless it is a loopback address that this machine alone knows; else the first one of
// its interfaces.
func ownAddress(lookup func(string) (string, bool)) string {
	usable := func(ip net.IP) bool { return ip.To4() != nil && ip.IsGlobalUnicast() }
	var names []string
	if name, ok := lookup("SLURMD_NODENAME"); ok {
		names = append(names, name)
	}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	for _, name := range names {
		addrs, _ := net.LookupIP(name)
		for _, ip := range addrs {
			if usable(ip) && !strings.HasPrefix(ip.String(), "127.") {
				return ip.String()
			}
		}
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && usable(n.IP) {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
