package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/otel"
	"github.com/paragon-train/paragon/launch/internal/prom"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// options are the command line, read and checked.
type options struct {
	// command is that of the workers. It is empty only with check.
	command []string

	workers, servers int

	// check is --check: no job is started.
	check bool

	// start is the start method. Its own flags are in the fields below that have its name.
	start    startMethod
	hostfile string
	agent    agentOptions
	source   sourceOptions
	ssh      sshOptions
	slurm    slurmOptions
	mpirun   []string

	// remote says that processes run on other hosts than this machine.
	remote bool

	// hosts is nil if the hosts are known only when the job starts.
	hosts []hosts.Host

	// schedulerHost is nil for this machine.
	schedulerHost *hosts.Host

	gpus     gpus.Request
	env      environment
	network  networkOptions
	times    timeOptions
	elastic  job.Elastic
	survival survivalOptions
	observed observeOptions
	output   outputOptions
	trial    trialOptions
}

// sshOptions are the flags of --launcher ssh besides the hosts.
type sshOptions struct {
	command []string

	// syncDir is the folder on each host that gets a copy of the current one; empty: none. Paths
	// of syncExclude are left out.
	syncDir     string
	syncExclude []string
}

// slurmOptions are what --launcher slurm knows of its allocation.
type slurmOptions struct {
	// lookup finds the variables of Slurm.
	lookup     func(string) (string, bool)
	allocation slurm.Allocation
}

// networkOptions say how the processes reach each other.
type networkOptions struct {
	// hostIP is the scheduler's address; empty: it is found out.
	hostIP string

	// name is that of a network interface; empty: any.
	name string
	tls  bool
}

// timeOptions bound how long things may take.
type timeOptions struct {
	start, stop, checkpoint, host time.Duration
}

// survivalOptions say how a job outlives failures, besides what is elastic.
type survivalOptions struct {
	restarts int

	// state is where the scheduler keeps its state; empty: the job decides.
	state string

	// spot is the provider whose notices are watched for; empty: none.
	spot string
}

// observeOptions say who can watch the job.
type observeOptions struct {
	// metricsListen is empty if nothing is served.
	metricsListen string

	// processMetrics is a host with port 0; empty: nothing is served.
	processMetrics string
	page           statusOptions

	// otelEndpoint is that of --otel-endpoint; empty: as the standard variables say.
	otelEndpoint string
}

// outputOptions say in which form launch writes what.
type outputOptions struct {
	// json is for what the processes print.
	json      bool
	logFormat joblog.Format

	// result is a file; empty: none.
	result string
}

// trialOptions make the job a trial of launch tune.
type trialOptions struct {
	// elastic is trialFlag, and carry is carryFlag.
	elastic, carry bool
}

func readOptions(c *cli.Context) (*options, error) { return readOptionsIn(c, os.LookupEnv) }

// readOptionsIn reads the command line where the variables of Slurm are those of lookup. A step may
// need what those before it have read.
func readOptionsIn(c *cli.Context, lookup func(string) (string, bool)) (*options, error) {
	o := &options{
		workers: c.Int("num-workers"), servers: c.Int("num-servers"), check: c.Bool("check"), hostfile: c.Path("hostfile"),
		ssh:     sshOptions{syncDir: c.String("sync-dst-dir"), syncExclude: c.StringSlice("sync-exclude")},
		slurm:   slurmOptions{lookup: lookup},
		network: networkOptions{hostIP: c.String("host-ip"), name: c.String("interface")},
		times: timeOptions{
			start: c.Duration("start-timeout"), stop: c.Duration("stop-timeout"), checkpoint: c.Duration("checkpoint-timeout"), host: c.Duration("host-timeout"),
		},
		trial: trialOptions{elastic: c.Bool(trialFlag), carry: c.Bool(carryFlag)},
	}
	for _, read := range []func(*cli.Context) error{
		o.readOutput,
		o.setSlurmWorkers, o.readNumbers, o.checkTimes,
		o.readLauncher, o.checkPlaces, o.readNetwork,
		o.readElastic, o.readState, o.readSource,
		o.readEnvironment, o.readGPUs,
		o.readMetrics, o.readSpans, o.readSpot, o.readPage,
		o.readCommand,
	} {
		if err := read(c); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *options) readOutput(c *cli.Context) (err error) {
	o.output.result = c.Path("result")
	switch {
	case c.IsSet("result") && o.output.result == "":
		return command.Usagef("--result is empty; give a file")
	case o.output.result != "" && o.check:
		return command.Usagef("--result tells how a job ended, and --check starts none; leave one of them out")
	}
	switch v := c.String("output"); {
	case v != "text" && v != "json":
		return command.Usagef("--output %q is unknown; want text or json", v)
	case v == "json" && o.check:
		return command.Usagef("--output json is for the output of processes, and --check starts none; leave one of them out")
	default:
		o.output.json = v == "json"
	}
	o.output.logFormat, err = command.ReadLogFormat(c)
	return err
}

func (o *options) readNumbers(c *cli.Context) error {
	switch {
	case !c.IsSet("num-workers") && o.check:
		o.workers = 1
	case !c.IsSet("num-workers") && o.workers == 0:
		return command.Usagef("the number of workers is missing; give -n NUMBER")
	}
	if !c.IsSet("num-servers") {
		o.servers = o.workers
	}
	if err := command.CheckNumber("-n", o.workers, 1, cluster.MaxNodes, " workers"); err != nil {
		return err
	}
	if err := command.CheckNumber("-s", o.servers, 1, cluster.MaxNodes, " servers"); err != nil {
		return err
	}
	return checkNodes(o.workers, o.servers, c.IsSet("num-servers"))
}

func (o *options) checkTimes(*cli.Context) error {
	for _, d := range []struct {
		name         string
		value, least time.Duration
	}{{"start-timeout", o.times.start, 0}, {"stop-timeout", o.times.stop, 0}, {"checkpoint-timeout", o.times.checkpoint, 0}, {"host-timeout", o.times.host, time.Second}} {
		if d.value <= d.least || d.value > maxTime {
			return command.Usagef("--%s is %s, want more than %s, such as 30s or 5m, and at most %.0fh", d.name, d.value, d.least, maxTime.Hours())
		}
	}
	return nil
}

// checkPlaces refuses hosts without places for all workers and servers, and reads the scheduler's.
func (o *options) checkPlaces(c *cli.Context) error {
	if o.hosts != nil {
		if _, err := method.Any(o.hosts).Place(o.workers, o.servers); err != nil {
			return command.Usage(fmt.Errorf("launch: %w", err))
		}
	}
	if s := c.String("scheduler-host"); s != "" {
		h, err := hosts.ParseHost(s)
		if err != nil {
			return command.Usagef("--scheduler-host: %v", err)
		}
		o.schedulerHost = &h
	}
	return nil
}

func (o *options) readNetwork(c *cli.Context) error {
	switch v := c.String("tls"); v {
	case "auto":
		o.network.tls = o.remote
	case "on", "off":
		o.network.tls = v == "on"
	default:
		return command.Usagef("--tls %q is unknown; want auto, on or off", v)
	}
	if o.network.hostIP != "" {
		if net.ParseIP(o.network.hostIP) == nil {
			return command.Usagef("--host-ip %q is not an IP address", o.network.hostIP)
		}
		return nil
	}
	if o.network.name != "" && o.schedulerHost == nil {
		var err error
		if o.network.hostIP, err = job.InterfaceAddress(o.network.name); err != nil {
			return command.Usage(err)
		}
	}
	return nil
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

func (o *options) readEnvironment(c *cli.Context) (err error) {
	o.env, err = readEnvironment(c.StringSlice("env"), c.StringSlice("env-server"), c.StringSlice("env-worker"))
	return err
}

func (o *options) readGPUs(c *cli.Context) error {
	if !c.IsSet("gpus") {
		return nil
	}
	var err error
	if o.gpus, err = gpus.Parse(c.String("gpus")); err != nil {
		return command.Usage(err)
	}
	return nil
}

func (o *options) readMetrics(c *cli.Context) error {
	if o.observed.metricsListen = c.String("metrics-listen"); c.IsSet("metrics-listen") {
		if err := prom.CheckAddress(o.observed.metricsListen); err != nil {
			return command.Usagef("--metrics-listen: %v", err)
		}
	}
	if host := c.String("process-metrics"); c.IsSet("process-metrics") {
		if host == "" || strings.Contains(host, "/") {
			return command.Usagef("--process-metrics %q: want a host or address without a port, such as 127.0.0.1, or 0.0.0.0 for all interfaces", host)
		}
		o.observed.processMetrics = net.JoinHostPort(host, "0")
	}
	return nil
}

func (o *options) readSpans(c *cli.Context) error {
	if o.observed.otelEndpoint = c.String(otelFlag); c.IsSet(otelFlag) {
		if err := otel.CheckEndpoint(o.observed.otelEndpoint); err != nil {
			return command.Usagef("--%s: %v", otelFlag, err)
		}
	}
	return nil
}

func (o *options) readSpot(c *cli.Context) error {
	if o.survival.spot = c.String(spotFlag); o.survival.spot != "" {
		return checkSpot(o.survival.spot)
	}
	return nil
}

func (o *options) readPage(c *cli.Context) (err error) {
	o.observed.page, err = readStatus(c, o.trial.elastic)
	return err
}

func (o *options) readCommand(c *cli.Context) error {
	if o.command = workerCommand(c.Args().Slice()); len(o.command) == 0 && !o.check {
		return command.Usagef("no command for the workers; write it at the end: launch -n %d ./program", o.workers)
	}
	return nil
}
