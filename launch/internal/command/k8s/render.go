package k8s

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/kubernetes"
)

// renderK8s is `launch k8s render`.
func renderK8s(c *cli.Context, stdout, stderr io.Writer) error {
	// The flags are read twice. The first time they are read as launch in the pod will read
	// them, with the variables as they were given; then --env NAME is replaced by the value
	// that NAME has here, since the pods' environment is another one.
	args, err := launchArguments(c, nil)
	if err != nil {
		return err
	}
	o, err := readArguments(kubernetes.Scheduler(1, args, c.Args().Slice()))
	if err != nil {
		return err
	}
	if args, err = launchArguments(c, &o.Env); err != nil {
		return err
	}
	cfg := kubernetes.Config{
		Name: c.String("name"), Namespace: c.String("namespace"), Image: c.String("image"),
		Workers: o.Workers, Servers: o.Servers, Slots: c.Int("slots"), Elastic: o.Elastic.Enabled, MinWorkers: o.Elastic.MinWorkers,
		Arguments: args, Command: c.Args().Slice(),
		Worker: kubernetes.Resources{CPUs: c.String("cpus"), Memory: c.String("memory")},
		Server: kubernetes.Resources{CPUs: c.String("server-cpus"), Memory: c.String("server-memory")},
		User:   c.Int64("user"), NodeSelector: c.StringSlice("node-selector"), Tolerations: c.StringSlice("toleration"),
		Drain: c.Duration("drain"), StopTimeout: o.Times.Stop, JobSet: c.Bool("jobset"), Queue: c.String("kueue"),
	}
	for _, name := range []string{"kueue", "namespace", "cpus", "memory", "server-cpus", "server-memory"} {
		if c.IsSet(name) && c.String(name) == "" {
			return command.Usagef("k8s: --%s is empty; give a value, or leave it out", name)
		}
	}
	if cfg.GPUs, err = gpusInCluster(c); err != nil {
		return err
	}
	if !c.IsSet("drain") {
		cfg.Drain = max(leaveTime, cfg.StopTimeout+leaveMargin)
	}
	for _, text := range c.StringSlice("pvc") {
		v, err := kubernetes.ParseVolume(text)
		if err != nil {
			return command.Usagef("k8s: --pvc: %v", err)
		}
		cfg.Volumes = append(cfg.Volumes, v)
	}
	secretFile := c.Path(secretFileFlag)
	if secretFile == "" {
		if secretFile, err = defaultSecretFile(cfg.Namespace, cfg.Name); err != nil {
			return err
		}
	}
	return printK8s(cfg, secretFile, stdout, stderr)
}

// printK8s prints the manifests of a job whose secret is in a file. The file is made after
// everything else is known to be right.
func printK8s(cfg kubernetes.Config, secretFile string, stdout, stderr io.Writer) error {
	// Any secret serves to validate the rest.
	cfg.Secret = dialin.NewSecret().Encode()
	if err := cfg.Validate(); err != nil {
		return command.Usagef("k8s: %v", err)
	}

	// Only the default folder is made: a folder that the user names may be misspelt.
	if folder := filepath.Dir(secretFile); folder == secretFolder() {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("launch: k8s: a folder for the secret: %w", err)
		}
	}
	secret, made, err := dialin.ReadOrMakeSecret(secretFile)
	if err != nil {
		return err
	}
	if made {
		fmt.Fprintf(stderr, "launch: created the secret %s; the manifests contain it, too: keep both out of version control\n", secretFile)
	}
	if cfg.Lost() {
		fmt.Fprintf(stderr, "launch: checkpoints in %s are lost with the pod that wrote them: mount a volume that all pods share, with --pvc CLAIM:/checkpoints, or name a bucket\n", kubernetes.CheckpointDir(cfg.Command))
	}
	if cfg.Drain < cfg.StopTimeout {
		fmt.Fprintf(stderr, "launch: --drain %s is less than --stop-timeout %s: a pod of workers that is evicted ends before its checkpoint has had its time\n", cfg.Drain, cfg.StopTimeout)
	}
	if cfg.Queue != "" && !cfg.JobSet {
		fmt.Fprintln(stderr, "launch: Kueue admits the three Jobs one by one; with --jobset it admits all pods together, or none")
	}
	cfg.Secret = secret.Encode()
	text, err := kubernetes.Render(cfg)
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}
