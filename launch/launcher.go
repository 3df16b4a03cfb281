package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/hostsource"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/remotecontrol"
)

// A startMethod is a value of --launcher.
type startMethod struct {
	name string
	// fits reports whether it is the one where --launcher is not given.
	fits func(c *cli.Context) bool
	// read reads its flags, and the hosts where they are known before the job starts.
	read func(o *options, c *cli.Context) error
	// open makes the method.
	open func(ctx context.Context, o *options, e startEnvironment) (method.Method, error)
}

// A startEnvironment is what start methods work with.
type startEnvironment struct {
	executable string // the launch program

	// folder is the one that launch runs in.
	folder string

	log *slog.Logger

	// agentLog gets what agents on this machine write.
	agentLog io.Writer

	// source follows the list of hosts that others keep; nil: there is none.
	source *hostsource.Follower

	control *remotecontrol.Server // answers launch ctl on other machines
	// progress shows what launch waits for; "" ends that.
	progress func(text string)
}

// startMethods are the values of --launcher. The first one that fits is the default.
var startMethods = []startMethod{
	{"ssh", func(c *cli.Context) bool { return c.Path("hostfile") != "" || hasSource(c) }, (*options).readSSH, openSSH},
	{slurmMethod, inSlurm, (*options).readSlurm, openSlurm},
	{mpiMethod, func(*cli.Context) bool { return false }, (*options).readMPI, openMPI},
	{"agents", func(*cli.Context) bool { return false }, (*options).readAgents, openAgents},
	{"local", func(*cli.Context) bool { return true }, (*options).readLocal, openLocal},
}

// startMethodNames are the names for messages.
func startMethodNames() string {
	names := make([]string, len(startMethods))
	for i, m := range startMethods {
		names[i] = m.name
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// readLauncher finds the start method and reads its flags.
func (o *options) readLauncher(c *cli.Context) error {
	m, ok := startMethodOf(c)
	if !ok {
		return command.Usagef("--launcher %q is unknown; want %s", c.String("launcher"), startMethodNames())
	}
	if c.IsSet(mpiFlag) && m.name != mpiMethod {
		return command.Usagef("--%s is for --launcher mpi; give that, too", mpiFlag)
	}
	o.start = m
	return m.read(o, c)
}

// startMethodOf is the start method that the flags ask for; false: there is none of that name.
func startMethodOf(c *cli.Context) (startMethod, bool) {
	name := c.String("launcher")
	for _, m := range startMethods {
		if m.name == name || name == "" && m.fits(c) {
			return m, true
		}
	}
	return startMethod{}, false
}

func (o *options) readLocal(c *cli.Context) error {
	if o.hostfile != "" {
		return command.Usagef("--launcher local runs everything on this machine; leave out -H %s, or use --launcher ssh", o.hostfile)
	}
	for _, name := range []string{"sync-dst-dir", "sync-exclude", "scheduler-host"} {
		if c.IsSet(name) {
			return command.Usagef("--%s is for jobs on several hosts; give them with -H FILE", name)
		}
	}
	o.hosts = []hosts.Host{hosts.Local}
	return o.readControl(c)
}

func openLocal(_ context.Context, o *options, e startEnvironment) (method.Method, error) {
	return &method.Local{Agent: append([]string{e.executable}, o.agentArguments(noLease, true)...), Log: e.agentLog}, nil
}

func (o *options) readSSH(c *cli.Context) error {
	if o.hostfile == "" && !hasSource(c) {
		return command.Usagef("--launcher ssh needs the hosts: give them with -H FILE, or --%s", hostsCommandFlag)
	}
	o.remote = true
	var err error
	if o.hostfile != "" {
		if o.hosts, err = hosts.Read(o.hostfile); err != nil {
			return command.Usage(fmt.Errorf("launch: %w", err))
		}
	}
	if o.ssh.command, err = ssh.SplitWords(c.String("ssh-command")); err != nil || len(o.ssh.command) == 0 {
		return command.Usagef("--ssh-command %q is not a command: %v", c.String("ssh-command"), err)
	}
	if o.ssh.syncDir == "" && len(o.ssh.syncExclude) > 0 {
		return command.Usagef("--sync-exclude is about the copy of --sync-dst-dir; give that, too")
	}
	if o.ssh.syncDir != "" {
		o.ssh.syncDir = ssh.Folder(o.ssh.syncDir)
	}
	return o.readControl(c)
}

// sshCommandGiven reports whether the command line has --ssh-command; its variable alone is no
// mistake with other start methods.
func sshCommandGiven(c *cli.Context) bool {
	return c.IsSet("ssh-command") && c.String("ssh-command") != os.Getenv(ssh.Variable)
}

func openSSH(_ context.Context, o *options, e startEnvironment) (method.Method, error) {
	cfg := ssh.Config{Command: o.ssh.command, Executable: e.executable, AgentArgs: o.agentArguments(o.times.host.String(), false), Logger: e.log}
	find := func(context.Context) ([]hosts.Host, error) { return o.hosts, nil }
	if o.hosts == nil {
		find = func(ctx context.Context) ([]hosts.Host, error) { return e.source.Await(ctx, o.workers) }
	}

	// launch writes the files that are left out.
	source := ssh.Source{Dir: e.folder, Exclude: []string{hostworker.Name, hostworker.LogName}}
	for _, path := range o.ssh.syncExclude {
		clean, err := ssh.CleanExclude(e.folder, path)
		if err != nil {
			return nil, command.Usagef("--sync-exclude: %v", err)
		}
		source.Exclude = append(source.Exclude, clean)
	}
	return method.NewSSH(find, cfg, source, o.ssh.syncDir), nil
}
