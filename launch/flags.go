package main

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/flagerr"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/otel"
	"github.com/paragon-train/paragon/launch/internal/prom"
	"github.com/paragon-train/paragon/launch/internal/slurm"
	"github.com/paragon-train/paragon/launch/internal/spot"
)

const elasticFlag = "elastic-training-enabled"

func flags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.IntFlag{Name: "num-workers", Aliases: []string{"n"}, Usage: "`NUMBER` of workers", DefaultText: "must be given; on Slurm the allocation's tasks"},
		&cli.IntFlag{Name: "num-servers", Aliases: []string{"s"}, Usage: "`NUMBER` of servers", DefaultText: "as many as workers"},
		&cli.PathFlag{Name: "hostfile", Aliases: []string{"H"}, Usage: "hosts `FILE`: host[:port] [slots=N] [gpus=N] [cpus=N] on each line", TakesFile: true},
		&cli.StringFlag{Name: "launcher", Usage: "how processes start: " + startMethodNames(), DefaultText: "ssh with -H, slurm in an allocation of Slurm, else local"},
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
		newLogFormatFlag(),
		&cli.StringFlag{Name: "ssh-command", Usage: "the ssh client, with options (`WORDS` as in a shell)", Value: "ssh", EnvVars: []string{ssh.Variable}},
		&cli.StringFlag{Name: elasticFlag, Usage: "let hosts join and leave while the job runs: True or False", DefaultText: "False"},
		&cli.StringFlag{Name: "on-worker-loss", Usage: "when a worker is lost: shrink, wait for another one, or fail", DefaultText: "shrink if elastic, else fail"},
		&cli.IntFlag{Name: "min-workers", Usage: "the job fails when fewer than `NUMBER` workers are left", Value: 1},
		&cli.IntFlag{Name: "max-workers", Usage: "no more than `NUMBER` workers join", DefaultText: "any number"},
		&cli.BoolFlag{Name: "adapt-workers", Usage: "let the job choose its number of workers, from --min-workers to --max-workers, by its own goodput (FitConfig.Adapt)", DisableDefaultText: true},
		&cli.DurationFlag{Name: "join-timeout", Usage: "a host that is added has `TIME` to be prepared, and its workers to be ready", Value: 5 * time.Minute},
		&cli.IntFlag{Name: "rejoin", Usage: "restart a lost worker on its host, at most `NUMBER` times in a row", Value: 3},
		&cli.StringFlag{Name: "prepare-data", Usage: "`COMMAND` that must succeed on an added host before its workers start"},
		&cli.IntFlag{Name: "backups", Usage: "keep each shard on `NUMBER` more servers (0 or 1): with 1, a server may be lost", DefaultText: "0"},
		&cli.IntFlag{Name: "restarts", Usage: "restart a failed job from its newest checkpoint, at most `NUMBER` times", DefaultText: "0"},
		&cli.StringFlag{Name: "state", Usage: "the scheduler keeps its state in folder `PATH` of its host, or in etcd://host:port/prefix",
			DefaultText: "a folder of this job, if workers or servers may be lost"},
		&cli.StringFlag{Name: "metrics-listen", Usage: "serve the job's metrics to Prometheus on `ADDRESS` (host:port; port 0: a free one) of the scheduler's host", DefaultText: "not served"},
		&cli.StringFlag{Name: "process-metrics", Usage: "serve each worker's and server's own metrics, too, on a free port of `HOST` (127.0.0.1, 0.0.0.0, ...) of its machine", DefaultText: "not served"},
		&cli.StringFlag{Name: statusFlag, Usage: "serve the job's live page at `ADDRESS` (host:port; port 0: a free one), or off; the link is printed", Value: "127.0.0.1:0"},
		&cli.PathFlag{Name: "status-cert", Usage: "TLS certificate `FILE` (PEM) of the live page; needed if other machines can reach its address", TakesFile: true},
		&cli.PathFlag{Name: "status-key", Usage: "private key `FILE` (PEM) of that certificate", TakesFile: true},
		&cli.StringFlag{Name: otelFlag, Usage: "send the job's spans to the OpenTelemetry collector at `URL` (OTLP over HTTP, such as http://host:4318)", DefaultText: "$OTEL_EXPORTER_OTLP_ENDPOINT"},
		newSpotFlag("hosts leave the job when `PROVIDER` takes them back (spot machines): " + spot.Providers + "; agents that dial in have a --spot of their own"),
		// Of launch tune: the workers wait for slots (launch slot), and no files name the
		// hosts.
		&cli.BoolFlag{Name: trialFlag, Hidden: true},
		// Of launch tune: launch carry runs the workers' command.
		&cli.BoolFlag{Name: carryFlag, Hidden: true},
		&cli.PathFlag{Name: "result", Usage: "write how the job ended to `FILE`, as JSON", TakesFile: true},
	}, agentFlags(), mpiFlags(), sourceFlags())
}

// trialFlag makes the job an elastic trial of launch tune.
const trialFlag = "elastic-trial"

// carryFlag makes the job a trial of launch tune whose command keeps its state in a folder on its
// host.
const carryFlag = "carry"

// options are the command line, read and checked.
type options struct {
	workers, servers int
	hostfile         string
	start            startMethod
	remote           bool         // processes run on other hosts than this machine
	hosts            []hosts.Host // nil: they are known when the job starts
	agent            agentOptions
	source           sourceOptions
	mpirun           []string                    // of --launcher mpi
	lookup           func(string) (string, bool) // variables of Slurm
	allocation       slurm.Allocation            // of --launcher slurm
	sshCommand       []string
	syncDir          string
	syncExclude      []string // paths of the current folder that are not copied
	env              environment
	schedulerHost    *hosts.Host
	hostIP, netName  string
	metricsListen    string
	processMetrics   string // host:0
	status           statusOptions
	spot             string // the provider whose notices are watched for
	otelEndpoint     string // of --otel-endpoint; empty: as the standard variables say
	tls              bool
	startTimeout     time.Duration
	stopTimeout      time.Duration
	checkpointTime   time.Duration
	hostTimeout      time.Duration
	check            bool
	elastic          job.Elastic
	restarts         int
	state            string
	result           string
	command          []string
	trial            bool // of launch tune, and elastic
	carry            bool // launch carry runs the command
	json             bool // the output
	logFormat        joblog.Format
	gpus             gpus.Request
}

func readOptions(c *cli.Context) (*options, error) { return readOptionsIn(c, os.LookupEnv) }

// readOptionsIn reads the command line where the variables of Slurm are those of lookup.
func readOptionsIn(c *cli.Context, lookup func(string) (string, bool)) (*options, error) {
	o := &options{
		lookup:  lookup,
		workers: c.Int("num-workers"), servers: c.Int("num-servers"), hostfile: c.Path("hostfile"), syncDir: c.String("sync-dst-dir"), syncExclude: c.StringSlice("sync-exclude"),
		trial: c.Bool(trialFlag), carry: c.Bool(carryFlag), hostIP: c.String("host-ip"), netName: c.String("interface"), check: c.Bool("check"),
		startTimeout: c.Duration("start-timeout"), stopTimeout: c.Duration("stop-timeout"), checkpointTime: c.Duration("checkpoint-timeout"), hostTimeout: c.Duration("host-timeout"), result: c.Path("result"),
	}
	switch {
	case c.IsSet("result") && o.result == "":
		return nil, usagef("--result is empty; give a file")
	case o.result != "" && o.check:
		return nil, usagef("--result tells how a job ended, and --check starts none; leave one of them out")
	}
	switch v := c.String("output"); {
	case v != "text" && v != "json":
		return nil, usagef("--output %q is unknown; want text or json", v)
	case v == "json" && o.check:
		return nil, usagef("--output json is for the output of processes, and --check starts none; leave one of them out")
	default:
		o.json = v == "json"
	}
	var err error
	if o.logFormat, err = readLogFormat(c); err != nil {
		return nil, err
	}
	if err := o.setSlurmWorkers(c); err != nil {
		return nil, err
	}
	if err := o.readNumbers(c); err != nil {
		return nil, err
	}
	if err := o.readHosts(c); err != nil {
		return nil, err
	}
	if err := o.readElastic(c); err != nil {
		return nil, err
	}
	if err := o.readSource(c); err != nil {
		return nil, err
	}
	if o.env, err = readEnvironment(c.StringSlice("env"), c.StringSlice("env-server"), c.StringSlice("env-worker")); err != nil {
		return nil, err
	}
	if c.IsSet("gpus") {
		if o.gpus, err = gpus.Parse(c.String("gpus")); err != nil {
			return nil, usageError{err}
		}
	}
	if o.metricsListen = c.String("metrics-listen"); c.IsSet("metrics-listen") {
		if err := prom.CheckAddress(o.metricsListen); err != nil {
			return nil, usagef("--metrics-listen: %v", err)
		}
	}
	if host := c.String("process-metrics"); c.IsSet("process-metrics") {
		if host == "" || strings.Contains(host, "/") {
			return nil, usagef("--process-metrics %q: want a host or address without a port, such as 127.0.0.1, or 0.0.0.0 for all interfaces", host)
		}
		o.processMetrics = net.JoinHostPort(host, "0")
	}
	if o.otelEndpoint = c.String(otelFlag); c.IsSet(otelFlag) {
		if err := otel.CheckEndpoint(o.otelEndpoint); err != nil {
			return nil, usagef("--%s: %v", otelFlag, err)
		}
	}
	if o.spot = c.String(spotFlag); o.spot != "" {
		if err := checkSpot(o.spot); err != nil {
			return nil, err
		}
	}
	if o.status, err = readStatus(c, o.trial); err != nil {
		return nil, err
	}
	if o.command = command(c.Args().Slice()); len(o.command) == 0 && !o.check {
		return nil, usagef("no command for the workers; write it at the end: launch -n %d ./program", o.workers)
	}
	return o, nil
}

func (o *options) readNumbers(c *cli.Context) error {
	switch {
	case !c.IsSet("num-workers") && o.check:
		o.workers = 1
	case !c.IsSet("num-workers") && o.workers == 0:
		return usagef("the number of workers is missing; give -n NUMBER")
	}
	if !c.IsSet("num-servers") {
		o.servers = o.workers
	}
	if err := checkNumber("-n", o.workers, 1, cluster.MaxNodes, " workers"); err != nil {
		return err
	}
	if err := checkNumber("-s", o.servers, 1, cluster.MaxNodes, " servers"); err != nil {
		return err
	}
	if err := checkNodes(o.workers, o.servers, c.IsSet("num-servers")); err != nil {
		return err
	}
	for _, d := range []struct {
		name         string
		value, least time.Duration
	}{{"start-timeout", o.startTimeout, 0}, {"stop-timeout", o.stopTimeout, 0}, {"checkpoint-timeout", o.checkpointTime, 0}, {"host-timeout", o.hostTimeout, time.Second}} {
		if d.value <= d.least || d.value > maxTime {
			return usagef("--%s is %s, want more than %s, such as 30s or 5m, and at most %.0fh", d.name, d.value, d.least, maxTime.Hours())
		}
	}
	return nil
}

func (o *options) readHosts(c *cli.Context) error {
	if err := o.readLauncher(c); err != nil {
		return err
	}
	if o.hosts != nil {
		if _, err := method.Any(o.hosts).Place(o.workers, o.servers); err != nil {
			return usageError{fmt.Errorf("launch: %w", err)}
		}
	}
	if s := c.String("scheduler-host"); s != "" {
		h, err := hosts.ParseHost(s)
		if err != nil {
			return usagef("--scheduler-host: %v", err)
		}
		o.schedulerHost = &h
	}
	switch v := c.String("tls"); v {
	case "auto":
		o.tls = o.remote
	case "on", "off":
		o.tls = v == "on"
	default:
		return usagef("--tls %q is unknown; want auto, on or off", v)
	}
	return o.readAddress()
}

// connections is how many hosts the launcher connects to: none where all runs on this machine.
func (o *options) connections() int {
	if !o.remote {
		return 0
	}
	if o.hosts == nil {
		return cmp.Or(o.agent.agents, o.workers)
	}
	return len(o.hosts)
}

func (o *options) readAddress() error {
	if o.hostIP != "" {
		if net.ParseIP(o.hostIP) == nil {
			return usagef("--host-ip %q is not an IP address", o.hostIP)
		}
		return nil
	}
	if o.netName != "" && o.schedulerHost == nil {
		var err error
		if o.hostIP, err = job.InterfaceAddress(o.netName); err != nil {
			return usageError{err}
		}
	}
	return nil
}

// readElastic reads what may change while the job runs.
func (o *options) readElastic(c *cli.Context) error {
	enabled, err := parseBool(c.String(elasticFlag))
	if err != nil {
		return usagef("--%s: %v", elasticFlag, err)
	}
	policy := c.String("on-worker-loss")
	switch policy {
	case "", job.LossShrink, job.LossWait, job.LossFail:
	default:
		return usagef("--on-worker-loss %q is unknown; want shrink, wait or fail", policy)
	}
	o.elastic = job.Elastic{Enabled: enabled, OnWorkerLoss: policy, Backups: c.Int("backups")}
	e := &o.elastic
	survives := policy == job.LossShrink || policy == job.LossWait || policy == "" && enabled
	if survives {
		e.Rejoin = c.Int("rejoin")
	}
	for _, name := range []string{"max-workers", "adapt-workers", "join-timeout", "prepare-data"} {
		if c.IsSet(name) && !enabled {
			return usagef("--%s is about hosts that join; give --%s, too", name, elasticFlag)
		}
	}
	for _, name := range []string{"min-workers", "rejoin"} {
		if c.IsSet(name) && !survives {
			return usagef("--%s is for jobs that go on without a lost worker; give --on-worker-loss shrink or wait, too", name)
		}
	}
	if c.IsSet("min-workers") {
		if e.MinWorkers = c.Int("min-workers"); e.MinWorkers < 1 || e.MinWorkers > o.workers {
			return usagef("--min-workers is %d, want 1 to the %d of -n", e.MinWorkers, o.workers)
		}
	}
	if c.IsSet("max-workers") {
		if e.MaxWorkers = c.Int("max-workers"); e.MaxWorkers < o.workers || e.MaxWorkers > cluster.MaxNodes {
			return usagef("--max-workers is %d, want at least the %d of -n and at most %d", e.MaxWorkers, o.workers, cluster.MaxNodes)
		}
	}
	if e.AdaptWorkers = c.Bool("adapt-workers"); e.AdaptWorkers && e.MaxWorkers == 0 {
		if o.hosts == nil {
			return usagef("--adapt-workers needs a limit; give --max-workers NUMBER")
		}
		for _, h := range o.hosts {
			if h.Slots == 0 {
				return usagef("--adapt-workers needs a limit; give --max-workers NUMBER, or slots=NUMBER for every host of the hosts file")
			}
			e.MaxWorkers += h.Slots
		}
	}
	switch e.JoinTimeout = c.Duration("join-timeout"); {
	case e.JoinTimeout < time.Second || e.JoinTimeout > maxTime:
		return usagef("--join-timeout is %s, want at least 1s, such as 30s or 5m, and at most %.0fh", e.JoinTimeout, maxTime.Hours())
	case e.Rejoin < 0 || e.Rejoin > maxRetries:
		return usagef("--rejoin is %d, want 0, for never, to %d", e.Rejoin, maxRetries)
	case e.Backups < 0 || e.Backups > 1:
		return usagef("--backups is %d, want 0 or 1", e.Backups)
	case e.Backups == 1 && o.servers < 2:
		return usagef("--backups 1 keeps each shard on two servers, and there is 1; give -s 2 or more")
	}
	if text := c.String("prepare-data"); c.IsSet("prepare-data") {
		if strings.TrimSpace(text) == "" {
			return usagef("--prepare-data is empty; give a command, in quotes if it has spaces")
		}
		e.PrepareData = []string{"/bin/sh", "-c", text}
	}
	if o.restarts = c.Int("restarts"); o.restarts < 0 || o.restarts > maxRetries {
		return usagef("--restarts is %d, want 0, for never, to %d", o.restarts, maxRetries)
	}
	return o.readState(c)
}

// readState reads --state, and finds the folder where it is left out: empty where the job needs
// none.
func (o *options) readState(c *cli.Context) error {
	o.state = c.String("state")
	switch {
	case !c.IsSet("state"):
		return nil
	case strings.HasPrefix(o.state, "etcd://"):
		u, err := url.Parse(o.state)
		if err != nil || u.Hostname() == "" || u.Port() == "" {
			return usagef("--state %q is not an address of etcd; write etcd://host:port/prefix", o.state)
		}
		o.state = strings.TrimSuffix(o.state, "/")
	case strings.Contains(o.state, "://"):
		return usagef("--state %q: want a folder or etcd://host:port/prefix", o.state)
	case o.state == "":
		return usagef("--state is empty; give a folder, or etcd://host:port/prefix")
	case o.schedulerHost == nil:
		abs, err := filepath.Abs(o.state)
		if err != nil {
			return usagef("--state: %v", err)
		}
		o.state = abs
	case !filepath.IsAbs(o.state):
		return usagef("--state %s is on the scheduler's host; give an absolute path", o.state)
	}
	return nil
}

// parseBool reads what people write for yes and no; the empty word is no.
func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "t", "yes", "y", "on", "1":
		return true, nil
	case "", "false", "f", "no", "n", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither True nor False", s)
}

// joinBool makes one argument of `--elastic-training-enabled False`, and gives the bare flag its
// value: the flag takes a word that may be missing, which flag packages do not know.
func joinBool(app *cli.App, args []string) []string {
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
