package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/show"
	"github.com/paragon-train/paragon/tune/study"
)

// searchCommand is `launch tune FILE`.
func searchCommand(c *cli.Context, out, stderr io.Writer) error {
	format, err := command.ReadLogFormat(c)
	if err != nil {
		return err
	}
	s, err := study.Load(c.Args().First())
	if err != nil {
		return err
	}
	if err := applyFlags(c, s); err != nil {
		return err
	}

	// From here on messages stand above the table on a terminal.
	status, logger := searchOutput(s, out, stderr, format)
	if c.Bool("verbose") {
		s.Jobs.Output = status
	}
	if s.Jobs.Launch, err = os.Executable(); err != nil {
		return fmt.Errorf("launch: tune: find own program: %w", err)
	}
	if err := useAllocation(s, os.LookupEnv, logger); err != nil {
		return err
	}

	// Signals are caught from here on: before, no trial runs.
	ctx, forget := searchContext(c.Context, logger)
	defer forget()
	fit, err := prepareNodes(ctx, s, out)
	if err != nil {
		return err
	}
	for _, w := range s.Warnings() {
		logger.Warn("tune: " + w)
	}

	// A dry run has found the hosts, too, so that it says how many trials fit.
	if c.Bool("dry-run") {
		return dryRun(ctx, s, fit, out)
	}
	return search(ctx, c.Args().First(), s, status, out)
}

// applyFlags changes a study as the command line says.
func applyFlags(c *cli.Context, s *study.Study) (err error) {
	if c.IsSet("dir") {
		s.Config.Dir = c.String("dir")
	}
	if c.IsSet("parallel") {
		s.Config.Parallel = c.Int("parallel")
		if err := command.CheckNumber("tune: --parallel", s.Config.Parallel, 1, tune.MaxParallel, " trials"); err != nil {
			return err
		}
	}
	var deadline study.Deadline
	if c.IsSet("deadline") {
		if deadline, err = study.ParseDeadline(c.String("deadline")); err != nil {
			return command.Usagef("tune: --deadline: %v", err)
		}
	}
	if err := s.SetDeadline(deadline, time.Now()); err != nil {
		return err
	}
	if s.Config.StatusListen = c.String(command.PageFlag); s.Config.StatusListen == command.PageOff {
		s.Config.StatusListen = ""
	}
	s.Config.Resume, err = resumeMode(c.Bool("resume"), c.String("failed"))
	return err
}

// searchOutput is where the state of a search is shown: as a table on a terminal, else in lines.
// Messages on the same terminal stand above the table.
func searchOutput(s *study.Study, out, stderr io.Writer, format joblog.Format) (*show.Status, *slog.Logger) {
	status, log := show.NewLines(out), stderr
	if f := command.FileOf(out); f != nil && term.IsTerminal(int(f.Fd())) {
		status = show.NewStatus(f)
		if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) && format == joblog.Text {
			log = status
		}
	}
	status.Name = s.Config.Name
	logger := command.NewLogger(log, format, "tune")
	s.Config.Logger, s.Jobs.Logger = logger, logger
	return status, logger
}

// resumeMode is what --resume and --failed say together.
func resumeMode(resume bool, failed string) (tune.ResumeMode, error) {
	modes := map[string]tune.ResumeMode{"keep": tune.ResumeAuto, "resume": tune.ResumeErrored, "restart": tune.RestartErrored}
	mode, ok := modes[failed]
	switch {
	case !ok:
		return "", command.Usagef("tune: --failed is %q, want keep, resume or restart", failed)
	case !resume && failed != "keep":
		return "", command.Usagef("tune: --failed %s is for --resume", failed)
	case !resume:
		return tune.ResumeNever, nil
	}
	return mode, nil
}

// prepareNodes finds the nodes, shows them, and returns how many trials fit at once.
func prepareNodes(ctx context.Context, s *study.Study, out io.Writer) (fit int, err error) {
	nodes, err := s.Jobs.Nodes()
	if err != nil {
		return 0, err
	}
	room := func() (int, error) { return s.Jobs.Room(s.Config.Resources) }

	// A scheduler that divides the slots among its trials starts a trial with the fewest that
	// it may have; with any other one a trial has the slots of the file from its beginning to
	// its end.
	a, divides := s.Config.Scheduler.(tune.Allocator)
	if divides {
		least, _ := a.Replicas()
		room = func() (int, error) {
			nodes, err := s.Jobs.Slots(ctx, s.Config.Resources)
			slots := 0
			for _, n := range nodes {
				slots += n.Slots
			}
			return min(max(slots/least, 1), tune.MaxParallel), err
		}
		err = s.Jobs.Scalable(s.Config.Resources, least)
	} else {
		err = s.Jobs.Fits(s.Config.Resources)
	}
	if err != nil {
		return 0, fmt.Errorf("launch: tune: a trial can never run: %w", err)
	}
	if fit, err = room(); err != nil {
		return 0, err
	}
	if s.Config.Parallel == 0 {
		s.Config.Parallel = fit
		if !divides && s.Jobs.HostFile != "" {
			// Hosts may come while the search runs.
			s.Config.Parallel = tune.AsManyAsFit
		}
	}
	if _, err := nodes.WriteTo(out); err != nil {
		return 0, err
	}
	if len(s.Upload) > 0 {
		err = s.Jobs.UploadFiles(ctx, s.Upload...)
	}
	return fit, err
}

// keepFile keeps the study's file in its folder once the search has begun.
type keepFile struct {
	s   *study.Study
	err error
}

// Observe implements tune.Observer. It runs before any trial does, so a crash leaves a folder that
// says what it is of.
func (k *keepFile) Observe(_ tune.View, e tune.Event) {
	if e.Kind == tune.EventStudy || e.Kind == tune.EventOpen {
		k.err = os.WriteFile(filepath.Join(k.s.Config.Dir, study.Name), k.s.Text, 0o666)
	}
}

// Close implements tune.Observer.
func (k *keepFile) Close(tune.View) error {
	if k.err != nil {
		return fmt.Errorf("launch: tune: copy the study's file: %w", k.err)
	}
	return nil
}

// search runs the search, and says what came out.
func search(ctx context.Context, file string, s *study.Study, status *show.Status, out io.Writer) error {
	cfg := s.Config
	cfg.Runner = s.Jobs
	cfg.Observers = []tune.Observer{&keepFile{s: s}, status, show.NewFiles(cfg.Dir)}
	result, err := tune.Run(ctx, nil, cfg)
	if result == nil {
		if errors.Is(err, tune.ErrExists) {
			return fmt.Errorf("launch: tune: %s already holds a search: resume it with --resume, or use another --dir", cfg.Dir)
		}
		return err
	}
	if ctx.Err() != nil && err != nil {
		again := "launch tune --resume "
		if cfg.Dir != "" && s.Config.Dir != "" {
			again += ssh.Quote([]string{resumeWord(file, s)})
		}
		fmt.Fprintf(out, "\ninterrupted; all reports are in %s\nto resume: %s\n", cfg.Dir, again)
		if errors.Is(context.Cause(ctx), errRequeue) {
			return command.ExitError(control.ExitCheckpointed)
		}
		return command.ExitError(ExitInterrupted)
	}
	if err != nil && len(result.Front()) == 0 {
		printFailed(out, result, cfg.Dir, resumeWord(file, s))
		return err
	}
	written, wrote := writeResults(cfg.Dir, result)
	printBest(out, s, result, written)
	printFailed(out, result, cfg.Dir, resumeWord(file, s))
	return errors.Join(err, wrote)
}
