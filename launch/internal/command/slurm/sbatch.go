package slurm

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// readSbatch reads what a script asks Slurm for.
func readSbatch(c *cli.Context, name string) (slurm.ScriptConfig, error) {
	exe, err := os.Executable()
	if err != nil {
		return slurm.ScriptConfig{}, fmt.Errorf("launch: find own program: %w", err)
	}
	cfg := slurm.ScriptConfig{
		Name: c.String("job-name"), Nodes: c.Int("nodes"), TasksPerNode: c.Int("ntasks-per-node"), CPUsPerTask: c.Int("cpus-per-task"), GPUsPerNode: c.Int("gpus-per-node"),
		Memory: c.String("mem"), Partition: c.String("partition"), Account: c.String("account"), QOS: c.String("qos"), Constraint: c.String("constraint"),
		Log: c.String("log"), More: c.StringSlice("sbatch"), Launch: exe, Notice: c.Duration("notice"),
	}
	if cfg.Name == "" {
		cfg.Name = name
	}
	if !c.IsSet("nodes") {
		return cfg, command.Usagef("slurm: the number of nodes is missing; give --nodes NUMBER")
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"nodes", cfg.Nodes}, {"ntasks-per-node", cfg.TasksPerNode}, {"cpus-per-task", cfg.CPUsPerTask}, {"gpus-per-node", cfg.GPUsPerNode}} {
		if c.IsSet(n.name) && (n.value < 1 || n.value > 65_536) {
			return cfg, command.Usagef("slurm: --%s is %d, want 1 to 65536", n.name, n.value)
		}
	}
	if c.IsSet("time") {
		if cfg.Time, err = slurm.Limit(c.String("time")); err != nil {
			return cfg, command.Usagef("slurm: --time %v", err)
		}
	}
	return cfg, nil
}

// namesProcessors are options of sbatch that say how many processors a worker has.
var namesProcessors = regexp.MustCompile(`^(--exclusive|--cpus-per-(task|gpu)|-c)`)

// warnProcessors warns of a script that does not say how many processors a worker has: on many
// clusters it then gets one.
func warnProcessors(stderr io.Writer, command string, cfg slurm.ScriptConfig) {
	if cfg.CPUsPerTask > 0 || slices.ContainsFunc(cfg.More, namesProcessors.MatchString) {
		return
	}
	fmt.Fprintf(stderr, "launch: slurm %s: without --cpus-per-task a worker gets one processor on many clusters; give --cpus-per-task NUMBER, or --sbatch --exclusive for whole nodes\n", command)
}
