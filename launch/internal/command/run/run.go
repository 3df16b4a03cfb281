package run

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// Run is launch without a subcommand.
func Run(args []string, stdout, stderr io.Writer) int {
	app := options.NewApp(stdout, stderr)
	app.Action = func(c *cli.Context) error {
		o, err := options.Read(c)
		if err != nil {
			return err
		}
		if err := checkMachine(o); err != nil {
			return err
		}
		return runLogged(c.Context, o, stdout, stderr)
	}
	return command.ExitCode(app.Run(options.JoinBool(app, args)), app.Name, stderr)
}

// runOptions runs the job of a command line, and writes its result where that is asked for.
func runOptions(ctx context.Context, o *options.Options, stdout, stderr io.Writer) error {
	if o.Output.Result == "" {
		_, err := runJob(ctx, o, stdout, stderr)
		return err
	}
	file, err := openResult(o.Output.Result)
	if err != nil {
		return err
	}
	end, err := runJob(ctx, o, stdout, stderr)
	code := end.exitCode(err, stdout)
	writing := file.write(end.report(code))
	if writing == nil {
		return err
	}
	if code > 0 {
		// launch ends with the job's own exit code, so this error has to be said here.
		slog.Error(writing.Error())
	}
	return errors.Join(err, writing)
}

// runJob runs the job to its end. An error that is not a command.ExitError has not been printed
// yet.
func runJob(ctx context.Context, o *options.Options, stdout, stderr io.Writer) (outcome, error) {
	r, err := newJobRun(o, stdout, stderr)
	if err != nil {
		return outcome{}, err
	}
	defer r.close()
	if err := r.openHosts(ctx); err != nil {
		return outcome{}, err
	}
	if o.Check {
		return r.check(ctx, stdout)
	}
	cfg, stopped, err := r.configure(ctx)
	if err != nil {
		return outcome{Result: stopped}, err
	}
	w, err := r.watch(&cfg)
	if err != nil {
		return outcome{}, err
	}
	res, err := job.Repeat(ctx, cfg, o.Survival.Restarts)
	return r.end(w, res, err)
}

// runLogged is runOptions. Where the log is JSON, it has the error, too.
func runLogged(ctx context.Context, o *options.Options, stdout, stderr io.Writer) error {
	if o.Output.LogFormat != joblog.JSON {
		return runOptions(ctx, o, stdout, stderr)
	}
	command.NewLogger(stderr, o.Output.LogFormat, launcherRole)
	err := runOptions(ctx, o, stdout, stderr)
	var exit command.ExitError
	var usage command.UsageError
	if err == nil || errors.As(err, &exit) || errors.As(err, &usage) {
		return err
	}
	slog.Error(err.Error())
	return command.ExitError(1)
}
