package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/method"
)

// agentOptions are the flags about agents that dial in.
type agentOptions struct {
	// agents is 0 for as many as have slots for all workers.
	agents int

	listen string

	// secretFile is empty if the secret is in the environment.
	secretFile string

	addressFile string
}

// agentFlags are the flags of --launcher agents.
func agentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "agents", Usage: "wait for `NUMBER` agents before the job starts (--launcher agents)", DefaultText: "until they have slots for all workers"},
		&cli.StringFlag{Name: "listen", Usage: "wait for agents, and for launch ctl on other machines, on `ADDRESS` (host:port; port 0: a free one)", DefaultText: "a free port of all addresses with --launcher agents, else not"},
		&cli.PathFlag{Name: "secret-file", Usage: "secret `FILE` that launch shares with its agents and launch ctl; created if missing", TakesFile: true},
		&cli.PathFlag{Name: "address-file", Usage: "write the addresses of --listen to `FILE`, for --join @FILE of launch agent and launch ctl", TakesFile: true},
	}
}

func (o *options) readAgents(c *cli.Context) error {
	o.remote = true
	if err := o.readListen(c); err != nil {
		return err
	}
	switch {
	case o.hostfile != "":
		return command.Usagef("--launcher agents has no hosts file: the hosts are those whose agents dial in; leave out -H %s, or use --launcher ssh", o.hostfile)
	case c.IsSet("sync-dst-dir"):
		return command.Usagef("--sync-dst-dir copies by rsync over ssh, and agents have no ssh; put the folder on every host (a shared file system, an image, rsync by hand) and leave it out")
	case c.IsSet("scheduler-host"):
		return command.Usagef("--scheduler-host is for --launcher ssh; with agents the scheduler runs beside launch: start launch on the host where it should run")
	case sshCommandGiven(c):
		return command.Usagef("--ssh-command is for --launcher ssh; agents dial in without ssh")
	case o.times.host > maxLease:
		return command.Usagef("--host-timeout is %s, want at most %s with agents", o.times.host, maxLease)
	case o.agent.secretFile == "" && os.Getenv(dialin.SecretVariable) == "":
		return command.Usagef("--launcher agents needs the secret that launch and its agents share: give --secret-file FILE (it is created if missing)")
	}
	if o.agent.agents = c.Int("agents"); c.IsSet("agents") {
		return command.CheckNumber("--agents", o.agent.agents, 1, maxAgents, "")
	}
	return nil
}

// readListen reads where launch listens.
func (o *options) readListen(c *cli.Context) error {
	o.agent = agentOptions{listen: c.String("listen"), secretFile: c.Path("secret-file"), addressFile: c.Path("address-file")}
	for _, name := range []string{"secret-file", "address-file"} {
		if c.IsSet(name) && c.Path(name) == "" {
			return command.Usagef("--%s is empty; give a file", name)
		}
	}
	if c.IsSet("listen") {
		if _, port, err := net.SplitHostPort(o.agent.listen); err != nil || port == "" {
			return command.Usagef("--listen %q: want host:port, such as :4000, or 10.0.0.5:0 for a free port", o.agent.listen)
		}
	}
	return nil
}

// maxLease bounds how long a host may be silent that has dialled in.
const maxLease = time.Hour

// maxAgents is the most agents of a job, each of which has a worker or a server.
const maxAgents = hosts.MaxSlots

// A listener is where agents dial in.
type listener struct {
	*dialin.Listener
	secret dialin.Secret

	// join is the command by which an agent joins.
	join string
}

// listenForAgents opens the place where agents and launch ctl dial in. The secret is that of
// --secret-file, else that of the environment, else a new one. noAgents is why agents may not join;
// empty: they may.
func (o *options) listenForAgents(ctx context.Context, e startEnvironment, noAgents string) (*listener, error) {
	a := o.agent
	var secret dialin.Secret
	var err error
	file := ""
	if a.secretFile != "" {
		var made bool
		if secret, made, err = dialin.ReadOrMakeSecret(a.secretFile); err != nil {
			return nil, err
		}
		if file, err = filepath.Abs(a.secretFile); err != nil {
			return nil, fmt.Errorf("launch: --secret-file: %w", err)
		}
		if made {
			e.log.Info(fmt.Sprintf("created the secret %s; copy it to the hosts of the agents (mode 0600)", file))
		}
	} else if text := os.Getenv(dialin.SecretVariable); text == "" {
		secret = dialin.NewSecret()
	} else if secret, err = dialin.ParseSecret(text); err != nil {
		return nil, fmt.Errorf("launch: %s: %w", dialin.SecretVariable, err)
	}

	// No process of the job needs the secret.
	os.Unsetenv(dialin.SecretVariable)
	l, err := dialin.Listen(ctx, dialin.Config{Listen: a.listen, Secret: secret, Lease: o.times.host, Control: e.control.Serve, NoAgents: noAgents, Logger: e.log})
	if err != nil {
		return nil, err
	}
	addresses := l.Addresses()
	words := []string{"launch", "agent", "--join", strings.Join(addresses, ",")}
	if a.addressFile != "" {
		path, err := filepath.Abs(a.addressFile)
		if err == nil {
			err = writeAddresses(path, addresses)
		}
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("launch: --address-file: %w", err)
		}
	}
	if file != "" {
		words = append(words, "--secret-file", file)
	}
	return &listener{l, secret, ssh.Quote(words)}, nil
}

// writeAddresses writes the address file so that nobody reads a part of it.
func writeAddresses(path string, addresses []string) error {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = next.WriteString(strings.Join(addresses, "\n") + "\n")
	err = errors.Join(err, next.Chmod(0o644), next.Close()) // no secret inside
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		os.Remove(next.Name())
	}
	return err
}

// removeAddresses removes the address file, unless another launch has written it meanwhile.
func removeAddresses(path string, addresses []string) {
	if b, err := os.ReadFile(path); err == nil && string(b) == strings.Join(addresses, "\n")+"\n" {
		os.Remove(path)
	}
}

func openAgents(ctx context.Context, o *options, e startEnvironment) (method.Method, error) {
	l, err := o.listenForAgents(ctx, e, "")
	if err != nil {
		return nil, err
	}
	e.log.Info("agents join with: " + l.join)
	return &dialledIn{method.NewAgents(o.agentsConfig(l, e)), o, l}, nil
}

// agentsConfig is how agents are used.
func (o *options) agentsConfig(l *listener, e startEnvironment) method.AgentsConfig {
	return method.AgentsConfig{
		Listener: l.Listener, Agents: o.agent.agents, Workers: o.workers, Dir: e.folder, Join: l.join,
		DialTimeout: o.elastic.JoinTimeout, Progress: e.progress, Logger: e.log,
	}
}

// dialledIn are agents with what belongs to the command line.
type dialledIn struct {
	*method.Agents
	o *options
	l *listener
}

// Close implements method.Method.
func (d *dialledIn) Close() error { return d.end(d.Agents.Close) }

// Abandon implements method.Abandoner.
func (d *dialledIn) Abandon() error { return d.end(d.Agents.LeaveToNext) }

func (d *dialledIn) end(end func() error) error {
	addresses := d.l.Addresses()

	// Agents read the address file to come and hear that launch ends.
	err := end()
	if path := d.o.agent.addressFile; path != "" {
		removeAddresses(path, addresses)
	}
	return err
}
