package ctl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/launch/internal/addressfile"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/remotecontrol"
)

// The variables in place of --join and --secret-file of launch ctl and launch top.
const (
	controlAddressVariable = "PARAGON_CONTROL_ADDRESS"
	secretFileVariable     = "PARAGON_SECRET_FILE"
)

// remoteFlags say which launcher on another machine to ask. They stand before or behind the name of
// a command.
func remoteFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "join", Usage: "ask the launcher at `ADDR` (host:port, several with commas between them, or @FILE), which was started with --listen; or set " + controlAddressVariable,
			DefaultText: "a launcher of this machine"},
		&cli.StringFlag{Name: "secret-file", Usage: "secret `FILE` of that launcher; or set " + secretFileVariable},
	}
}

// jobFlags are the flags of commands about a job, and more.
func jobFlags(more ...cli.Flag) []cli.Flag {
	return append(append([]cli.Flag{
		&cli.StringFlag{Name: "job", Usage: "`ID` of the job, or its first characters", DefaultText: "the one started in this folder; status and why also take the only one that runs"},
	}, remoteFlags()...), more...)
}

// flagBefore is the value of a flag of a command, or of the app before it, or of a variable.
func flagBefore(c *cli.Context, name, variable string) string {
	for _, x := range c.Lineage() {
		if x.IsSet(name) {
			return x.String(name)
		}
	}
	return os.Getenv(variable)
}

// findRemote finds the job of a launcher on another machine; nil: none is named.
func findRemote(c *cli.Context) (*controller, error) {
	where := flagBefore(c, "join", controlAddressVariable)
	file := flagBefore(c, "secret-file", secretFileVariable)
	if where == "" {
		return nil, nil
	}
	addresses, err := addressfile.Parse(where)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("launch: ctl: %w", err))
	}
	all, err := addresses()
	if err != nil {
		return nil, fmt.Errorf("launch: ctl: --join: %w", err)
	}
	var secret dialin.Secret
	switch text := os.Getenv(dialin.SecretVariable); {
	case file != "":
		secret, err = dialin.ReadSecret(file)
	case text != "":
		if secret, err = dialin.ParseSecret(text); err != nil {
			err = fmt.Errorf("launch: $%s: %w", dialin.SecretVariable, err)
		}
	default:
		return nil, command.Usagef("ctl: --join needs the launcher's secret: give --secret-file FILE, or set %s", secretFileVariable)
	}
	if err != nil {
		return nil, err
	}
	k := &controller{launcher: strings.Join(all, ",")}
	k.remote = &remotecontrol.Client{Dial: func(ctx context.Context) (net.Conn, error) { return dialin.DialControl(ctx, all, secret) }}
	ctx, cancel := context.WithTimeoutCause(c.Context, askFor, fmt.Errorf("no answer within %s", askFor))
	defer cancel()
	if k.Record, err = k.remote.Record(ctx, c.String("job")); err != nil {
		return nil, k.explain(err)
	}
	return k, nil
}

// explain says what to do about an error of a launcher on another machine.
func (k *controller) explain(err error) error {
	hint := ""
	switch {
	case errors.Is(err, remotecontrol.ErrReply), errors.Is(err, control.ErrRefused): // it says so itself
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = "; the job is over, or its launcher was started without --listen"
	case errors.Is(err, identity.ErrSecret):
		hint = "; give the file of its --secret-file"
	default:
		hint = "; is it the address of a launcher (launch --listen), and the secret of its --secret-file?"
	}
	text := strings.TrimPrefix(err.Error(), "launch: reach the launcher: ")
	return fmt.Errorf("launch: launcher at %s: %s%s", k.launcher, text, hint)
}

// carry carries a request to the job's scheduler.
func (k *controller) carry(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error) {
	if k.remote == nil {
		return jobcontrol.Carry(ctx, addr, credentials, request)
	}
	return k.remote.Carry(ctx, k.Job, request)
}

// askOnce puts a request once.
func (k *controller) askOnce(ctx context.Context, q control.Request, into control.Answer) (raw []byte, err error) {
	if k.remote == nil {
		j := jobcontrol.Job{Record: k.Record}
		return j.Ask(ctx, q, into)
	}
	ctx, cancel := context.WithTimeout(ctx, askFor+time.Duration(q.WaitMillis)*time.Millisecond)
	defer cancel()
	return control.Ask(ctx, func(ctx context.Context, request []byte) ([]byte, error) { return k.carry(ctx, "", nil, request) }, q, into)
}

// remoteOver reports whether a launcher on another machine has ended, or runs another job.
func (k *controller) remoteOver() bool {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	_, err := k.remote.Record(ctx, k.Job)
	return errors.Is(err, remotecontrol.ErrReply) || errors.Is(err, syscall.ECONNREFUSED)
}
