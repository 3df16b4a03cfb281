package k8s

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/kubernetes"
)

// k8sDescription is what launch k8s render --help says.
const k8sDescription = `Prints the manifests of a job for Kubernetes: three Indexed Jobs (scheduler, servers, workers), a headless Service, a
Secret and PodDisruptionBudgets; with --jobset one JobSet in place of the Jobs and the Service.

  two workers and two servers
    launch k8s render --image registry.example.com/me/train:1 -n 2 -s 2 -- /app/train --epochs 5 > job.yaml
    kubectl apply -f job.yaml
    kubectl logs -f job/paragon-scheduler

  each worker with a GPU, checkpoints on a volume, started by Kueue when there is room for all
    launch k8s render --image registry.example.com/me/train:1 --name resnet -n 8 -s 4 --gpus 1 --cpus 8 --memory 32Gi \
       --pvc checkpoints:/checkpoints --jobset --kueue training -- /app/train --checkpoint-dir /checkpoints/resnet

  workers may come and go
    launch k8s render --image registry.example.com/me/train:1 -n 2 --elastic-training-enabled -- /app/train > job.yaml
    kubectl patch job/paragon-workers -p '{"spec":{"completions":4,"parallelism":4}}'

The pod of the scheduler runs launch, with launch's own flags that are given here; its log is the merged output, its exit code that of the job. It
waits for the agents of the other pods. The image needs launch in its PATH, of the same build in all pods; launch image makes such an image. A pod that
is evicted or whose node is lost is replaced. The job resumes from its newest checkpoint when the scheduler's pod is replaced (PARAGON_RESUME=1 is
set; a new training needs a checkpoint folder of its own). docs/how-to/kubernetes.md has the rest.`

// Run is `launch k8s`.
func Run(args []string, stdout, stderr io.Writer) int {
	render := &cli.Command{
		Name:        "render",
		Usage:       "print the manifests of a job",
		UsageText:   "launch k8s render --image NAME -n WORKERS [launch's own flags] -- COMMAND",
		Description: k8sDescription,
		Flags:       append(k8sFlags(), launchFlagsInCluster()...),
		Action:      func(c *cli.Context) error { return renderK8s(c, stdout, stderr) },
	}
	app := &cli.App{
		Name: "launch k8s", Usage: "run a job on Kubernetes", UsageText: "launch k8s render --image NAME -n WORKERS [launch's own flags] -- COMMAND",
		Commands: []*cli.Command{render}, DisableSliceFlagSeparator: true,
	}

	// The bare command shows what there is.
	app.Action = func(c *cli.Context) error {
		if c.NArg() > 0 {
			return command.Usagef("k8s: there is no %q; there is render", c.Args().First())
		}
		return cli.ShowAppHelp(c)
	}
	if len(args) > 0 && args[0] == render.Name {
		args = options.JoinBool(&cli.App{Flags: render.Flags}, args)
	}
	return command.RunApp(app, args, stdout, stderr)
}

// k8sFlags are the flags of rendering itself.
func k8sFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "image", Usage: "image `NAME`, with launch in its PATH and the command"},
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the job, and prefix of the names of all objects", Value: "paragon"},
		&cli.StringFlag{Name: "namespace", Usage: "`NAME` of the namespace", DefaultText: "kubectl's current namespace"},
		&cli.PathFlag{Name: secretFileFlag, Usage: "`FILE` with the secret that launch and its agents share; created if missing", DefaultText: "NAME.secret in paragon/k8s of your folder for settings, or ./" + oldSecretFile + " if it is there", TakesFile: true},
		&cli.BoolFlag{Name: "jobset", Usage: "print one JobSet in place of three Jobs and a Service", DisableDefaultText: true},
		&cli.StringFlag{Name: "kueue", Usage: "let Kueue start the job, by the LocalQueue `NAME`"},
		&cli.IntFlag{Name: "slots", Usage: "`NUMBER` of workers in each pod", Value: 1},
		&cli.StringFlag{Name: "cpus", Usage: "processors of each pod of workers: `AMOUNT` such as 8 or 500m, or none", DefaultText: "a request of 1 for each worker"},
		&cli.StringFlag{Name: "memory", Usage: "memory of each pod of workers: `AMOUNT` such as 32Gi, or none", DefaultText: "a request of 2Gi for each worker"},
		&cli.StringFlag{Name: "server-cpus", Usage: "processors of each server: `AMOUNT` or none", DefaultText: "a request of 500m"},
		&cli.StringFlag{Name: "server-memory", Usage: "memory of each server: `AMOUNT` or none", DefaultText: "a request of 1Gi"},
		&cli.StringSliceFlag{Name: "pvc", Usage: "mount a PersistentVolumeClaim in all pods: `CLAIM:/PATH[:ro]`; repeatable"},
		&cli.Int64Flag{Name: "user", Usage: "`NUMBER` of the user and group that the containers run as", Value: 65532},
		&cli.StringSliceFlag{Name: "node-selector", Usage: "only nodes with the label `KEY=VALUE`; repeatable"},
		&cli.StringSliceFlag{Name: "toleration", Usage: "also nodes with the taint `KEY[=VALUE][:EFFECT]`; repeatable"},
		&cli.DurationFlag{Name: "drain", Usage: "a pod that is evicted has `TIME` to leave the job", DefaultText: "20s, or 10s more than --stop-timeout"},
	}
}

const (
	secretFileFlag = "secret-file"
	// oldSecretFile was the default: a file that is there is still used.
	oldSecretFile = "paragon-secret"
	// leaveTime is the default of --drain; checkpointTime is that of --stop-timeout where the
	// command has a folder for checkpoints.
	leaveTime, checkpointTime = 20 * time.Second, 30 * time.Second
	// leaveMargin is what the default of --drain has beyond --stop-timeout.
	leaveMargin = 10 * time.Second
)

// notInCluster are the flags of launch that a job on Kubernetes cannot have, and why.
var notInCluster = map[string]string{
	"hostfile":       "the hosts are the job's own pods; give their number with -n and -s",
	"launcher":       "each pod runs an agent",
	"agents":         "launch waits for all pods",
	"listen":         "launch listens at the port of the Service",
	"address-file":   "agents find launch by the Service",
	"sync-dst-dir":   "the pods' files are those of the image and of --pvc",
	"scheduler-host": "the scheduler has a pod of its own",
	"host-ip":        "each pod is reached at its own address",
	"interface":      "each pod is reached at its own address",
	"status-cert":    "the page is reached by kubectl port-forward",
	"status-key":     "the page is reached by kubectl port-forward",
	"ssh-command":    "there is no ssh between pods",
	"hosts-command":  "the hosts are the job's own pods; kubectl patch changes their number",
	"hosts-url":      "the hosts are the job's own pods; kubectl patch changes their number",
	"hosts-interval": "the hosts are the job's own pods; kubectl patch changes their number",
	"hosts-force":    "the hosts are the job's own pods; kubectl patch changes their number",
	"mpirun":         "each pod runs its own agent, without mpirun",
	"spot":           "the node is drained when it is taken back (a node termination handler does), and its pods leave then",
	"check":          "this machine is not in the cluster; kubectl apply --dry-run=server -f FILE checks the manifests",
}

// launchFlagsInCluster are launch's own flags. Those that are refused have no place in the help.
// The environment of this machine is not that of the pods.
func launchFlagsInCluster() []cli.Flag {
	own := make(map[string]bool)
	for _, f := range k8sFlags() {
		own[f.Names()[0]] = true
	}
	var all []cli.Flag
	for _, f := range withoutVariables(options.Flags()) {
		name := f.Names()[0]
		if own[name] {
			continue
		}
		if _, refused := notInCluster[name]; refused {
			// Every kind of flag has this field, and no interface of package cli sets
			// it.
			reflect.ValueOf(f).Elem().FieldByName("Hidden").SetBool(true)
		}
		switch f := f.(type) {
		case *cli.StringFlag:
			if name == "gpus" {
				f.Usage, f.DefaultText = "`NUMBER` of GPUs of each worker: nvidia.com/gpu in the limits of its pod", "none"
			}
		case *cli.IntFlag:
			if name == "num-workers" {
				f.DefaultText = "must be given"
			}
		}
		all = append(all, f)
	}
	return all
}

// withoutVariables are flags that no variable of the environment sets.
func withoutVariables(flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		reflect.ValueOf(f).Elem().FieldByName("EnvVars").SetZero()
	}
	return flags
}

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

// defaultSecretFile is where the secret of a job is kept: not in the current folder, which may be
// that of a repository.
func defaultSecretFile(namespace, name string) (string, error) {
	if _, err := os.Stat(oldSecretFile); err == nil {
		return oldSecretFile, nil
	}
	folder := secretFolder()
	if folder == "" {
		return "", command.Usagef("k8s: there is no folder for the secret, since HOME is not set; give --%s FILE", secretFileFlag)
	}
	if namespace != "" {
		name = namespace + "." + name
	}
	return filepath.Join(folder, name+".secret"), nil
}

// secretFolder is paragon/k8s in the user's folder for settings; "": there is none.
func secretFolder() string {
	settings, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(settings, "paragon", "k8s")
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

// gpusInCluster is how many GPUs each worker's pod has to ask for.
func gpusInCluster(c *cli.Context) (int, error) {
	text := c.String("gpus")
	if !c.IsSet("gpus") {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 64 {
		return 0, command.Usagef("k8s: --gpus %q: pods must request their GPUs; give the number for each worker, 0 to 64", text)
	}
	return n, nil
}

// launchArguments are launch's own flags that are set, in the order of the help. With env the
// variables have the values that they have here.
func launchArguments(c *cli.Context, env *options.Environment) ([]string, error) {
	var args []string
	add := func(name string, values ...string) {
		for _, v := range values {
			args = append(args, "--"+name, v)
		}
	}

	// Pods may stay pending while nodes are added, for longer than hosts take that are there.
	if !c.IsSet("start-timeout") {
		add("start-timeout", kubernetes.StartTimeout.String())
	}

	// A pod that is evicted has the time for a checkpoint. Without a folder for one there is
	// nothing to wait for.
	if !c.IsSet("stop-timeout") && kubernetes.CheckpointDir(c.Args().Slice()) != "" {
		add("stop-timeout", checkpointTime.String())
	}
	for _, f := range launchFlagsInCluster() {
		name := f.Names()[0]
		if !c.IsSet(name) {
			continue
		}
		if why, refused := notInCluster[name]; refused {
			return nil, command.Usagef("k8s: --%s is not for Kubernetes: %s; leave it out", name, why)
		}
		switch f.(type) {
		case *cli.BoolFlag:
			if c.Bool(name) {
				args = append(args, "--"+name)
			}
		case *cli.IntFlag:
			add(name, strconv.Itoa(c.Int(name)))
		case *cli.DurationFlag:
			add(name, c.Duration(name).String())
		case *cli.StringSliceFlag:
			add(name, c.StringSlice(name)...)
		case *cli.PathFlag:
			add(name, c.Path(name))
		default:
			add(name, c.String(name))
		}
	}
	if env == nil {
		return args, nil
	}
	return append(withoutEnvironment(args), environmentArguments(env)...), nil
}

// withoutEnvironment leaves out --env and its kin.
func withoutEnvironment(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--env" || args[i] == "--env-server" || args[i] == "--env-worker" {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// environmentArguments are the variables with their values, and the one that resumes a job whose
// scheduler's pod is replaced.
func environmentArguments(env *options.Environment) []string {
	const resume = "PARAGON_RESUME="
	var args []string
	if !slices.ContainsFunc(slices.Concat(env.All, env.Workers), func(v string) bool { return strings.HasPrefix(v, resume) }) {
		args = append(args, "--env", resume+"1")
	}
	for _, g := range []struct {
		flag string
		from []string
	}{{"--env", env.All}, {"--env-server", env.Servers}, {"--env-worker", env.Workers}} {
		for _, v := range g.from {
			args = append(args, g.flag, v)
		}
	}
	return args
}

// readArguments reads a command line as launch in the pod will.
func readArguments(args []string) (o *options.Options, err error) {
	app := options.NewApp(io.Discard, io.Discard)
	app.Flags = withoutVariables(app.Flags)
	app.Action = func(c *cli.Context) error {
		o, err = options.Read(c)
		return err
	}
	if err := app.Run(options.JoinBool(app, append([]string{"launch"}, args...))); err != nil {
		return nil, err
	}
	return o, nil
}
