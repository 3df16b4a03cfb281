package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/logline"
)

// runSubApp runs a part of launch that has commands or flags of its own, such as `launch ctl`, and returns the exit code.
func runSubApp(app *cli.App, args []string, stdout, stderr io.Writer) int {
	app.HideHelpCommand = true
	app.Writer, app.ErrWriter = stdout, stderr
	app.ExitErrHandler = func(*cli.Context, error) {} // the code is returned
	app.OnUsageError = func(c *cli.Context, err error, _ bool) error {
		return usageError{fmt.Errorf("%s: %w", app.Name, cmp.Or(earlyFlag(app, err), suggestFlag(c.App.VisibleFlags(), err)))}
	}
	for _, cmd := range app.Commands {
		cmd.HideHelpCommand = true
		cmd.OnUsageError = func(_ *cli.Context, err error, _ bool) error {
			return usageError{fmt.Errorf("%s %s: %w", app.Name, cmd.Name, suggestFlag(cmd.VisibleFlags(), err))}
		}
	}
	err := app.Run(append([]string{app.Name}, args...))
	var exit exitError
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &usage):
		name := app.Name
		if len(args) > 0 && app.Command(args[0]) != nil {
			name += " " + args[0]
		}
		fmt.Fprintf(stderr, "%v\nSee %s --help.\n", err, name)
		return exitUsage
	}
	fmt.Fprintln(stderr, logline.Visible(err.Error()))
	return 1
}

// unknownCommand refuses what is none of an app's commands.
func unknownCommand(app *cli.App, name string) error {
	var names []string
	for _, cmd := range app.VisibleCommands() {
		names = append(names, cmd.Name)
	}
	last := len(names) - 1
	return usagef("%s: there is no %q; there are %s and %s", strings.TrimPrefix(app.Name, "launch "), name, strings.Join(names[:last], ", "), names[last])
}

// unknownFlag is the name of an unknown flag, if that is what the error is about. Package flag says so by its text only.
func unknownFlag(err error) (name string, ok bool) {
	return strings.CutPrefix(err.Error(), "flag provided but not defined: -")
}

// earlyFlag says where a flag belongs that is a command's and stands before it; nil: the error is not about such a flag.
func earlyFlag(app *cli.App, err error) error {
	name, ok := unknownFlag(err)
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

// wantValue says which values a flag takes, where package flag says only that it could not parse this one.
func wantValue(flags []cli.Flag, err error) error {
	text, ok := strings.CutSuffix(err.Error(), ": parse error")
	if !ok {
		return err
	}
	for _, f := range flags {
		for _, name := range f.Names() {
			if !strings.HasSuffix(text, " for flag -"+name) && !strings.HasSuffix(text, " for -"+name) {
				continue
			}
			switch f.(type) {
			case *cli.IntFlag, *cli.Int64Flag:
				return fmt.Errorf("%s: want a whole number", text)
			case *cli.Float64Flag:
				return fmt.Errorf("%s: want a number", text)
			case *cli.DurationFlag:
				return fmt.Errorf("%s: want a time with its unit, such as 30s or 5m", text)
			case *cli.BoolFlag:
				return fmt.Errorf("%s: want true or false", text)
			}
		}
	}
	return err
}

// suggestFlag explains an error of package flag. If a flag is unknown, it names the one that was perhaps meant; if a flag's value is wrong, it says
// which values the flag takes.
func suggestFlag(flags []cli.Flag, err error) error {
	name, ok := unknownFlag(err)
	if !ok {
		return wantValue(flags, err)
	}
	text := "there is no flag -" + name
	if best := nearest(flags, strings.TrimLeft(name, "-")); best != "" {
		text += "; did you mean --" + best + "?"
	}
	return errors.New(text)
}

// nearest is the name of a flag that differs from name by a letter or two; empty: there is none.
func nearest(flags []cli.Flag, name string) string {
	best, least := "", 3
	for _, f := range flags {
		for _, n := range f.Names() {
			if d := distance(n, name); 2*d < len(n) && d < least {
				best, least = n, d
			}
		}
	}
	return best
}

// distance is the number of letters to insert, delete or replace to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
