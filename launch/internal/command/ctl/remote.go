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
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/launch/internal/addressfile"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/remotecontrol"
)

// askFor bounds how long a scheduler that is being started again is waited for, or a launcher on
// another machine.
const askFor = 10 * time.Second

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

// A remoteLauncher is a launcher on another machine, which carries requests to its job's scheduler.
type remoteLauncher struct {
	client *remotecontrol.Client

	// at are the addresses at which it is asked, for messages.
	at string
}

// findRemote finds the launcher that the flags or their variables name; nil: they name none.
func findRemote(c *cli.Context) (*remoteLauncher, error) {
	where := flagBefore(c, "join", controlAddressVariable)
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
	secret, err := remoteSecret(flagBefore(c, "secret-file", secretFileVariable))
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context) (net.Conn, error) { return dialin.DialControl(ctx, all, secret) }
	return &remoteLauncher{client: &remotecontrol.Client{Dial: dial}, at: strings.Join(all, ",")}, nil
}

// remoteSecret is the secret in a file or, where none is named, that of the environment.
func remoteSecret(file string) (dialin.Secret, error) {
	text := os.Getenv(dialin.SecretVariable)
	switch {
	case file != "":
		return dialin.ReadSecret(file)
	case text == "":
		return dialin.Secret{}, command.Usagef("ctl: --join needs the launcher's secret: give --secret-file FILE, or set %s", secretFileVariable)
	}
	secret, err := dialin.ParseSecret(text)
	if err != nil {
		err = fmt.Errorf("launch: $%s: %w", dialin.SecretVariable, err)
	}
	return secret, err
}

// record is that of the job whose ID begins with id. It has no credentials: the launcher keeps
// them.
func (l *remoteLauncher) record(ctx context.Context, id string) (record.Record, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askFor, fmt.Errorf("no answer within %s", askFor))
	defer cancel()
	r, err := l.client.Record(ctx, id)
	if err != nil {
		return r, l.explain(err)
	}
	return r, nil
}

// explain says what to do about an error of the launcher. What it has answered, and what the
// scheduler has refused, says so itself.
func (l *remoteLauncher) explain(err error) error {
	hint := ""
	switch {
	case errors.Is(err, remotecontrol.ErrReply), errors.Is(err, control.ErrRefused):
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = "; the job is over, or its launcher was started without --listen"
	case errors.Is(err, identity.ErrSecret):
		hint = "; give the file of its --secret-file"
	default:
		hint = "; is it the address of a launcher (launch --listen), and the secret of its --secret-file?"
	}
	text := strings.TrimPrefix(err.Error(), "launch: reach the launcher: ")
	return fmt.Errorf("launch: launcher at %s: %s%s", l.at, text, hint)
}

// over reports whether the launcher has ended, or runs another job. An error that may pass, such as
// a network that is down, says neither.
func (l *remoteLauncher) over(job string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	_, err := l.client.Record(ctx, job)
	return errors.Is(err, remotecontrol.ErrReply) || errors.Is(err, syscall.ECONNREFUSED)
}
