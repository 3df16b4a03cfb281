package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/observe/logline"
	"github.com/paragon-train/paragon/launch/internal/flagerr"
)

// RunApp runs a part of launch that has commands or flags of its own, such as `launch ctl`, and
// returns the exit code.
func RunApp(app *cli.App, args []string, stdout, stderr io.Writer) int {
	app.HideHelpCommand = true
	app.Writer, app.ErrWriter = stdout, stderr

	// Package cli would end the process.
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.OnUsageError = func(c *cli.Context, err error, _ bool) error {
		return UsageError{fmt.Errorf("%s: %w", app.Name, cmp.Or(earlyFlag(app, err), flagerr.Explain(c.App.VisibleFlags(), err)))}
	}
	for _, cmd := range app.Commands {
		cmd.HideHelpCommand = true
		cmd.OnUsageError = func(_ *cli.Context, err error, _ bool) error {
			return UsageError{fmt.Errorf("%s %s: %w", app.Name, cmd.Name, flagerr.Explain(cmd.VisibleFlags(), err))}
		}
	}
	name := app.Name
	if len(args) > 0 && app.Command(args[0]) != nil {
		name += " " + args[0]
	}
	return ExitCode(app.Run(append([]string{app.Name}, args...)), name, stderr)
}

// ExitCode is the exit code of a command that ended with err, which it prints unless somebody has.
// name is how the user calls the command to ask for help.
func ExitCode(err error, name string, stderr io.Writer) int {
	var exit ExitError
	var usage UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "%v\nSee %s --help.\n", err, name)
		return ExitUsage
	}
	fmt.Fprintln(stderr, logline.Visible(err.Error()))
	return 1
}

// UnknownCommand refuses what is none of an app's commands.
func UnknownCommand(app *cli.App, name string) error {
	var names []string
	for _, cmd := range app.VisibleCommands() {
		names = append(names, cmd.Name)
	}
	last := len(names) - 1
	return Usagef("%s: there is no %q; there are %s and %s", strings.TrimPrefix(app.Name, "launch "), name, strings.Join(names[:last], ", "), names[last])
}

// earlyFlag says where a flag belongs that is a command's and stands before it; nil: the error is
// not about such a flag.
func earlyFlag(app *cli.App, err error) error {
	name, ok := flagerr.Unknown(err)
	if !ok {
		return nil
	}
	name = strings.TrimLeft(name, "-")
	for _, cmd := range app.VisibleCommands() {
		for _, f := range cmd.VisibleFlags() {
			if slices.Contains(f.Names(), name) {
				return fmt.Errorf("--%s goes after the command, as in %s %s --%[1]s", name, app.Name, cmd.Name)
			}
		}
	}
	return nil
}
