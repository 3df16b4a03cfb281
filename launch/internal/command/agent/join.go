package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/addressfile"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/spot"
)

// exitRefused is the exit code of an agent that the launcher refused: to start it again the same
// way is of no use.
const exitRefused = 77

// agentApp is `launch agent --join`.
func agentApp(log *slog.Logger) *cli.App {
	return &cli.App{
		Name:  "launch agent",
		Usage: "run processes on this machine for a launcher that waits for agents",
		UsageText: `launch agent --join ADDR[,ADDR...] --secret-file FILE [flags]
launch agent --join @FILE --secret-file FILE [flags]`,
		Description: `Run one agent on each host, by whatever starts programs there. The launcher (launch --launcher agents) prints the command.

The exit code is 0 when the job is over or no longer needs this host, 1 when the launcher could not be reached or is lost,
2 for a wrong command line, 77 when the launcher refused (another secret, another build, the name is taken), and 128 + N
after signal N. No process that it started is left then.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "join", Usage: "address of the launcher: `ADDR` is host:port, several separated by commas, or @FILE with one on each line (launch --address-file)"},
			&cli.StringFlag{Name: "secret-file", Usage: "`FILE` with the launcher's secret; without it the secret is read from $" + dialin.SecretVariable},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of this host in the job", DefaultText: "$SLURMD_NODENAME, else the host's name"},
			&cli.IntFlag{Name: "slots", Usage: "`N` workers may run here", DefaultText: "the launcher decides"},
			&cli.IntFlag{Name: "gpus", Usage: "the job may use the first `N` GPUs of this host", Value: -1, DefaultText: "all"},
			&cli.StringFlag{Name: "runs", Usage: "run only `ROLES` here: workers or servers", DefaultText: "both"},
			&cli.StringFlag{Name: "host-ip", Usage: "`ADDRESS` at which other hosts reach this one", DefaultText: "that of the connection to the launcher"},
			&cli.DurationFlag{Name: "join-timeout", Usage: "how long to try to reach the launcher", Value: 5 * time.Minute},
			&cli.DurationFlag{Name: "rejoin", Usage: "if the launcher is lost, or stops before the job is over, look for a new one for `TIME`", DefaultText: "exit"},
			&cli.DurationFlag{Name: "drain", Usage: "`TIME` from SIGTERM until processes that have not left the job are killed", Value: 20 * time.Second},
			NewSpotFlag("leave the job when the provider takes this machine back: `PROVIDER` is " + spot.Providers),
		},
		Action: func(c *cli.Context) error { return joinLauncher(c, log) },
	}
}

// joinLauncher is `launch agent --join`. The exit code tells whoever started the agent, often a
// cluster, whether it is of use to start it again.
func joinLauncher(c *cli.Context, log *slog.Logger) error {
	cfg, err := readJoin(c, log)
	if err != nil {
		return err
	}
	if cfg.Serve.Executable, err = os.Executable(); err != nil {
		return fmt.Errorf("launch: agent: find own program: %w", err)
	}
	ctx, stop := agentContext()
	defer stop()
	err = dialin.Join(ctx, cfg)
	var stopped stopSignal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &stopped):
		log.Info("launch: agent: left the job: " + stopped.Error())
		return command.ExitError(128 + int(stopped.Signal))
	}
	log.Error(err.Error())
	if errors.Is(err, dialin.ErrRefused) {
		return command.ExitError(exitRefused)
	}
	return command.ExitError(1)
}

// readJoin reads the flags.
func readJoin(c *cli.Context, log *slog.Logger) (cfg dialin.JoinConfig, err error) {
	fromEnv := os.Getenv(dialin.SecretVariable)

	// No process that this one starts shall have the secret.
	os.Unsetenv(dialin.SecretVariable)
	cfg = dialin.JoinConfig{
		Timeout: c.Duration("join-timeout"), Rejoin: c.Duration("rejoin"), Logger: log,
		Serve: agent.Config{Adopt: true, Drain: c.Duration("drain"), Logger: log, Watch: watchSpot(c.String(SpotFlag), log)},
	}
	if c.Args().Present() {
		return cfg, command.Usagef("agent: got argument %q, want only flags", c.Args().First())
	}
	if cfg.Addresses, err = addressfile.Parse(c.String("join")); err != nil {
		return cfg, command.Usagef("agent: %v", err)
	}
	if err := CheckSpot(c.String(SpotFlag)); err != nil {
		return cfg, err
	}
	for _, name := range []string{"join-timeout", "drain"} {
		if c.Duration(name) <= 0 {
			return cfg, command.Usagef("agent: --%s is %s, want more than 0", name, c.Duration(name))
		}
	}
	if cfg.Rejoin < 0 {
		return cfg, command.Usagef("agent: --rejoin is %s, want 0 or more", cfg.Rejoin)
	}
	if cfg.Secret, err = readJoinSecret(c.String("secret-file"), fromEnv); err != nil {
		return cfg, err
	}

	// Slurm and Kubernetes may have given the agent some of the host's GPUs.
	cfg.Serve.GPUs = func() ([]string, error) { return gpus.Usable(os.LookupEnv, gpus.Installed) }
	cfg.Info, err = readHostInfo(c, cfg.Serve.GPUs, log)
	return cfg, err
}

// readJoinSecret takes the secret of a file or, where none is named, that of the environment.
func readJoinSecret(file, fromEnv string) (dialin.Secret, error) {
	switch {
	case file != "":
		return dialin.ReadSecret(file)
	case fromEnv != "":
		secret, err := dialin.ParseSecret(fromEnv)
		if err != nil {
			err = fmt.Errorf("launch: agent: $%s: %w", dialin.SecretVariable, err)
		}
		return secret, err
	}
	return dialin.Secret{}, command.Usagef("agent: no secret: give --secret-file FILE, a copy of the launcher's file")
}

// readHostInfo is what the launcher is told of this host.
func readHostInfo(c *cli.Context, listGPUs func() ([]string, error), log *slog.Logger) (dialin.Info, error) {
	info := dialin.Info{
		Name: c.String("name"), Slots: c.Int("slots"), Runs: c.String("runs"), Address: c.String("host-ip"),
		CPUs: len(affinity.Own()),
	}

	// All tasks of an srun have the same command line, so the name may be Slurm's.
	if info.Name == "" {
		info.Name = os.Getenv("SLURMD_NODENAME")
	}
	if info.Name == "" {
		var err error
		if info.Name, err = os.Hostname(); err != nil {
			return info, fmt.Errorf("launch: agent: %w; give --name", err)
		}
	}
	usable, err := listGPUs()
	if err != nil {
		log.Warn(fmt.Sprintf("launch: agent: list GPUs: %v", err))
	}
	info.GPUs = len(usable)
	if c.IsSet("gpus") {
		if info.MaxGPUs = c.Int("gpus"); info.MaxGPUs == 0 {
			info.MaxGPUs = hosts.NoGPUs
		} else if info.MaxGPUs < 0 {
			return info, command.Usagef("agent: --gpus is %d, want 0 or more", c.Int("gpus"))
		}
		info.GPUs = min(info.GPUs, max(info.MaxGPUs, 0))
	}
	if err := info.Check(); err != nil {
		return info, command.Usagef("agent: %v", err)
	}
	return info, nil
}
