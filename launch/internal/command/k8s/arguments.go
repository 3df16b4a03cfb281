package k8s

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/kubernetes"
)

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
