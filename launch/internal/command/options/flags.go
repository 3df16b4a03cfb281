package options

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/agent"
	"github.com/paragon-train/paragon/launch/internal/flagerr"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/spot"
)

// Flags makes the flags of launch itself, in the order of the help. Each call makes new ones:
// package cli keeps what it has read in them.
func Flags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.IntFlag{Name: "num-workers", Aliases: []string{"n"}, Usage: "`NUMBER` of workers", DefaultText: "must be given; on Slurm the allocation's tasks"},
		&cli.IntFlag{Name: "num-servers", Aliases: []string{"s"}, Usage: "`NUMBER` of servers", DefaultText: "as many as workers"},
		&cli.PathFlag{Name: "hostfile", Aliases: []string{"H"}, Usage: "hosts `FILE`: host[:port] [slots=N] [gpus=N] [cpus=N] on each line", TakesFile: true},
		&cli.StringFlag{Name: "launcher", Usage: "how processes start: " + methodNames(), DefaultText: "ssh with -H, slurm in an allocation of Slurm, else local"},
		&cli.StringFlag{Name: "sync-dst-dir", Usage: "copy the current folder to `DIR` on each host by rsync, and run there (ssh)"},
		&cli.StringSliceFlag{Name: "sync-exclude", Usage: "leave `PATH` of the current folder out of that copy; repeatable"},
		&cli.StringSliceFlag{Name: "env", Usage: "set variable `NAME` (with its value here), NAME=VALUE or NAME:VALUE in every process; repeatable"},
		&cli.StringSliceFlag{Name: "env-server", Usage: "the same for servers only"},
		&cli.StringSliceFlag{Name: "env-worker", Usage: "the same for workers only"},
		&cli.StringFlag{Name: "gpus", Usage: "GPUs of each worker: a `NUMBER`, auto (the host's GPUs divided over its workers), or the UUIDs to divide", DefaultText: "every worker sees all GPUs"},
		&cli.StringFlag{Name: "scheduler-host", Usage: "run the scheduler on `HOST` (ssh)", DefaultText: "this machine"},
		&cli.StringFlag{Name: "host-ip", Usage: "`ADDRESS` at which the hosts reach the scheduler", DefaultText: "detected"},
		&cli.StringFlag{Name: "interface", Usage: "use the address of network interface `NAME`, and pass its name to the processes"},
		&cli.StringFlag{Name: "tls", Usage: "encrypt the traffic between hosts: on, off or auto (on, unless --launcher is local)", Value: "auto"},
		&cli.DurationFlag{Name: "start-timeout", Usage: "give up if not all processes have joined after `TIME`", Value: 5 * time.Minute},
		&cli.DurationFlag{Name: "stop-timeout", Usage: "workers that are asked to stop have `TIME` to save their state", Value: 4 * time.Second},
		&cli.DurationFlag{Name: "checkpoint-timeout", Usage: "after SIGUSR1 workers have `TIME` to write the checkpoint with which the job stops", Value: job.DefaultCheckpointTime},
		&cli.DurationFlag{Name: "host-timeout", Usage: "a host that loses contact with launch for `TIME` stops its processes, and is lost (not with --launcher local)", Value: 4 * time.Second},
		&cli.BoolFlag{Name: "check", Usage: "check that all hosts can be used, say what is wrong, and start nothing", DisableDefaultText: true},
		&cli.StringFlag{Name: "output", Usage: "write what the processes print to the standard output as text, or as json for programs", Value: "text"},
		command.NewLogFormatFlag(),
		&cli.StringFlag{Name: "ssh-command", Usage: "the ssh client, with options (`WORDS` as in a shell)", Value: "ssh", EnvVars: []string{ssh.Variable}},
		&cli.StringFlag{Name: elasticFlag, Usage: "let hosts join and leave while the job runs: True or False", DefaultText: "False"},
		&cli.StringFlag{Name: "on-worker-loss", Usage: "when a worker is lost: shrink (the others go on), wait for another one, or fail; with shrink, too, a replacement is started, unless --rejoin 0", DefaultText: "shrink if elastic, else fail"},
		&cli.IntFlag{Name: "min-workers", Usage: "the job fails when fewer than `NUMBER` workers are left", Value: 1},
		&cli.IntFlag{Name: "max-workers", Usage: "no more than `NUMBER` workers join", DefaultText: "any number"},
		&cli.BoolFlag{Name: "adapt-workers", Usage: "let the job choose its number of workers, from --min-workers to --max-workers, by its own goodput (FitConfig.Adapt)", DisableDefaultText: true},
		&cli.DurationFlag{Name: "join-timeout", Usage: "a host that is added has `TIME` to be prepared, and its workers to be ready", Value: 5 * time.Minute},
		&cli.IntFlag{Name: "rejoin", Usage: "restart a lost worker on its host, at most `NUMBER` times in a row; 0: never", Value: 3},
		&cli.StringFlag{Name: "prepare-data", Usage: "`COMMAND` that must succeed on an added host before its workers start"},
		&cli.IntFlag{Name: "backups", Usage: "keep each shard on `NUMBER` more servers (0 or 1): with 1, a server may be lost", DefaultText: "0"},
		&cli.IntFlag{Name: "restarts", Usage: "restart a failed job from its newest checkpoint, at most `NUMBER` times", DefaultText: "0"},
		&cli.StringFlag{Name: "state", Usage: "the scheduler keeps its state in folder `PATH` of its host, or in etcd://host:port/prefix",
			DefaultText: "a folder of this job, if workers or servers may be lost"},
		&cli.StringFlag{Name: "metrics-listen", Usage: "serve the job's metrics to Prometheus on `ADDRESS` (host:port; port 0: a free one) of the scheduler's host", DefaultText: "not served"},
		&cli.StringFlag{Name: "process-metrics", Usage: "serve each worker's and server's own metrics, too, on a free port of `HOST` (127.0.0.1, 0.0.0.0, ...) of its machine", DefaultText: "not served"},
		&cli.StringFlag{Name: command.PageFlag, Usage: "serve the job's live page at `ADDRESS` (host:port; port 0: a free one), or off; the link is printed", Value: "127.0.0.1:0"},
		&cli.PathFlag{Name: "status-cert", Usage: "TLS certificate `FILE` (PEM) of the live page; needed if other machines can reach its address", TakesFile: true},
		&cli.PathFlag{Name: "status-key", Usage: "private key `FILE` (PEM) of that certificate", TakesFile: true},
		&cli.StringFlag{Name: otelFlag, Usage: "send the job's spans to the OpenTelemetry collector at `URL` (OTLP over HTTP, such as http://host:4318)", DefaultText: "$OTEL_EXPORTER_OTLP_ENDPOINT"},
		agent.NewSpotFlag("hosts leave the job when `PROVIDER` takes them back (spot machines): " + spot.Providers + "; agents that dial in have a --spot of their own"),
		&cli.BoolFlag{Name: trialFlag, Hidden: true},
		&cli.BoolFlag{Name: carryFlag, Hidden: true},
		&cli.PathFlag{Name: "result", Usage: "write how the job ended to `FILE`, as JSON", TakesFile: true},
	}, agentFlags(), mpiFlags(), sourceFlags())
}

// trialFlag makes the job an elastic trial of launch tune: its workers wait for slots (launch
// slot), and no files name its hosts.
const trialFlag = "elastic-trial"

// carryFlag makes the job a trial of launch tune whose command keeps its state in a folder on its
// host: launch carry runs it.
const carryFlag = "carry"

// JoinBool makes one argument of `--elastic-training-enabled False`, and gives the bare flag its
// value: the flag takes a word that may be missing, which flag packages do not know.
func JoinBool(app *cli.App, args []string) []string {
	// The value of another flag may look like this one, and the workers' command may have flags of
	// the same name.
	takesValue := make(map[string]bool)
	for _, f := range app.Flags {
		if _, ok := f.(*cli.BoolFlag); !ok {
			for _, name := range f.Names() {
				takesValue[name] = true
			}
		}
	}
	out := args[:1:1]
	for i := 1; i < len(args); i++ {
		name := strings.TrimLeft(args[i], "-")
		switch {
		case args[i] == "--" || name == args[i]: // the command begins
			return append(out, args[i:]...)
		case name == elasticFlag:
			value := "true"
			if i+1 < len(args) {
				if _, err := parseBool(args[i+1]); err == nil && args[i+1] != "" {
					value, i = args[i+1], i+1
				}
			}
			out = append(out, "--"+elasticFlag+"="+value)
		case takesValue[name] && i+1 < len(args):
			out = append(out, args[i], args[i+1])
			i++
		default:
			out = append(out, args[i])
		}
	}
	return out
}

// explainFlag says what to do about a flag of launch itself that cannot be read.
func explainFlag(app *cli.App, err error) error {
	explained := flagerr.Explain(app.VisibleFlags(), err)
	if name, ok := flagerr.Unknown(err); ok && flagerr.Nearest(app.VisibleFlags(), name) == "" {
		return fmt.Errorf("launch: %w; put flags of the workers' command after the command", explained)
	}
	return fmt.Errorf("launch: %w", explained)
}
