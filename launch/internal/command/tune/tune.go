package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/show"
	"github.com/paragon-train/paragon/tune/study"
)

const Description = `Searches the parameters of a command: it runs the command many times with different flags, stops bad trials early,
and reports which parameters were best and why. A file describes the search:

  study.yaml
    name: mnist
    metric: accuracy                  # the command prints lines like: accuracy=0.91 step=3
    mode: max
    command: ./mnist --data data/mnist --epochs 9 --out out/{trial} --optimizer {optimizer} --learning-rate {lr}
    space:
      optimizer: [sgd, adam]
      lr: {real: [1e-4, 1e-1], log: true}
    samples: 20
    suggester: tpe                    # auto (if none is named), random, sobol, tpe, gp, cmaes, external; for several objectives nsga2, motpe
    scheduler:
      asha: {max_step: 9, guard: true}
    resources: {slots: 2, servers: 1} # each trial is a job of two workers and a server

This command is examples/mnist: go build ./examples/mnist && ./mnist --download --data data/mnist

{lr} stands for the parameter; {trial} and {seed} for the trial's number and seed. {checkpoint} is a folder for a command that can go on: it
continues from the files there, if any, and saves its state there before it prints a line (each file under another name that it renames).
With hosts it is a temporary folder there, whose files are copied from and to this machine; the workers of a trial on a host share it. On other hosts than that of rank 0 they write files of their own names.
Without it a trial that is paused, promoted (promotion, hyperband), tried again, or takes over another's state (pbt) begins anew.

Without scheduler: a trial is stopped when it will hardly end among the best (predict), going by the values of earlier trials at the same
steps; with scheduler: fifo all trials train to their end.

With objectives: {accuracy: max, latency: min} in place of metric and mode it looks for the best trade-offs, and
with constraints: [memory <= 8] for trials that keep the bounds.

With fidelity: {parameter: width, low: 16, high: 128} beside space: trials are tried cheaply first, here with a narrow model: {width} is 16, and
48 and 128 (eta: 3) in further runs of those that the scheduler lets go on: promotion (if none is named), asha, hyperband, predict or median.
Only results at 128 count. A share of the data, {parameter: share, low: 0.1, high: 1}, or the size of images does as well.

With scheduler: goodput (or {goodput: {min_replicas: 1, max_replicas: 8, inner: {asha: {max_step: 27}}}}) each trial is an elastic job, whose
workers come and go while it trains: the slots of all hosts are divided among the trials by the goodput that each job predicts.

Examples:

  show the first trials without running them
    launch tune --dry-run study.yaml

  search; Ctrl-C stops it cleanly, and --resume continues, also after a crash (SIGUSR1 does, too, with exit code 85)
    launch tune study.yaml
    launch tune --resume study.yaml

  show the results, why trial 7 was stopped, and whether the log agrees with the rules
    launch tune show runs/mnist
    launch tune why runs/mnist 7
    launch tune replay runs/mnist/log.jsonl

  move a study's trials to Optuna, and from there (docs/how-to/optuna.md)
    launch tune export --optuna study.json runs/mnist
    launch tune import --optuna study.json study.yaml

Each trial has a folder for its logs, such as runs/mnist/trials/trial-000007. Tables and pictures are in runs/mnist:
trials.csv, curves.png and report.html.

With hosts: FILE trials run on hosts over ssh. The file is that of launch -H: host[:port] [slots=N] [gpus=N] [cpus=N]
on each line, and is read once, when the search starts. slots= is how many workers of trials run on the host at a time
(default: as many as processors and GPUs allow), gpus= and cpus= how many of its GPUs and processors trials may use. A host
that fails a trial or cannot be reached is set aside, and taken back when it answers. If no host is left the search waits
for host_timeout (10m). While the search runs hosts are shown, added and removed by commands:

    launch tune hosts runs/mnist
    launch tune add runs/mnist d3 slots=4
    launch tune remove runs/mnist d3

folder: DIR copies the current folder to the hosts for each trial, without the folders of searches. Checkpoints are copied
to the search and to the host where a trial continues, unless its hosts share the search's files; max_copied: bounds the
bytes of one.

In a Slurm allocation each trial runs in its own step on one of the nodes (docs/how-to/slurm.md).`

// ExitInterrupted is the exit code of a search that was interrupted, as shells have it.
const ExitInterrupted = 130

// errRequeue is the cause of the end of a search that SIGUSR1 stopped.
var errRequeue = errors.New("SIGUSR1")

// requeueContext ends with SIGUSR1, for the cause errRequeue. A search has all that it needs to go
// on in its folder, at any time.
func requeueContext(ctx context.Context) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR1)
	go func() {
		select {
		case <-caught:
			stop(errRequeue)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		stop(nil)
	}
}

// Run is `launch tune`.
func Run(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:        "launch tune",
		Usage:       "search hyper-parameters of a command",
		UsageText:   "launch tune [flags] STUDY.YAML\nlaunch tune show|why|replay|export|import|hosts|add|remove ...",
		Description: Description,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "resume", Usage: "resume the search in the study's folder, if there is one", DisableDefaultText: true},
			&cli.StringFlag{Name: "failed", Usage: "with --resume: what to do with failed trials: keep, resume (from their checkpoints) or restart", Value: "keep"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print the first trials, and exit", DisableDefaultText: true},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "also show the output of the trials", DisableDefaultText: true},
			&cli.StringFlag{Name: "dir", Usage: "the study's `FOLDER`", DefaultText: "from the file, or runs/NAME"},
			command.NewLogFormatFlag(),
			&cli.StringFlag{Name: "deadline", Usage: "the `TIME` by which the best has to be known: 18:00, 2026-11-29T18:00, or 2h after the search began", DefaultText: "from the file, or none"},
			&cli.IntFlag{Name: "parallel", Usage: "how many trials run at once", DefaultText: "from the file, or as many as fit"},
			&cli.StringFlag{Name: command.PageFlag, Usage: "serve the search's live page for browsers at a loopback `ADDRESS` (host:port; port 0: a free one), or off; the log has the link", Value: "127.0.0.1:0"},
		},
		Commands: []*cli.Command{showCommand(stdout), whyCommand(stdout), replayCommand(stdout), exportCommand(stdout), importCommand(stdout), hostsCommand(stdout), addCommand(stdout), removeCommand(stdout)},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return command.Usagef("tune: got %d arguments, want the file of the study: launch tune study.yaml (flags come before it)", c.NArg())
			}
			return searchCommand(c, stdout, stderr)
		},
	}
	return command.RunApp(app, args, stdout, stderr)
}

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
	ctx, forget := searchContext(c.Context, logger)
	defer forget()
	fit, err := prepareNodes(ctx, s, out)
	if err != nil {
		return err
	}
	for _, w := range s.Warnings() {
		logger.Warn("tune: " + w)
	}
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

// searchContext ends with Ctrl-C, SIGTERM and SIGUSR1. After the first of the former two another
// one ends launch at once.
func searchContext(ctx context.Context, logger *slog.Logger) (_ context.Context, forget func()) {
	ctx, forgetSignals := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	stopNotice := context.AfterFunc(ctx, func() {
		forgetSignals()
		logger.Info("tune: interrupted: waiting for the running trials to end; Ctrl-C again ends them at once")
	})
	ctx, forgetRequeue := requeueContext(ctx)
	return ctx, func() {
		forgetRequeue()
		stopNotice()
		forgetSignals()
	}
}

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
			s.Config.Parallel = tune.AsManyAsFit // hosts may come
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

// maxDry is how many trials a dry run shows.
const maxDry = 10

// dryRun says what the first trials would be.
func dryRun(ctx context.Context, s *study.Study, fit int, out io.Writer) error {
	cfg := s.Config
	parallel := cfg.Parallel
	if parallel == tune.AsManyAsFit {
		parallel = fit
	}
	cfg.Dir, cfg.Resume, cfg.StatusListen = "", tune.ResumeNever, ""
	one, err := tune.NewStudy(cfg)
	if err != nil {
		return err
	}
	defer one.Close()
	n := 0
	for ; n < maxDry; n++ {
		t, err := one.TryAsk()
		if errors.Is(err, tune.ErrDone) || errors.Is(err, tune.ErrWait) {
			break
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", t.Name(), commandText(s, t))
	}
	if n == maxDry {
		fmt.Fprintln(out, "... and so on; later trials may depend on results")
	}
	fmt.Fprintf(out, "%d at once (%d fit), in %s; no trial was run\n", parallel, fit, s.Config.Dir)
	return ctx.Err()
}

// commandText is the command of a trial as one would type it.
func commandText(s *study.Study, t tune.Trial) string {
	words := s.Command(tune.Attempt{Trial: t.Number, Params: t.Params, Seed: t.Seed, Checkpoint: "checkpoint"})
	if len(words) == 3 && words[0] == "/bin/sh" && words[1] == "-c" {
		return strings.TrimSpace(words[2])
	}
	return ssh.Quote(words)
}

// keepFile keeps the study's file in its folder once the search has begun.
type keepFile struct {
	s   *study.Study
	err error
}

func (k *keepFile) Observe(_ tune.View, e tune.Event) {
	if e.Kind == tune.EventStudy || e.Kind == tune.EventOpen {
		k.err = os.WriteFile(filepath.Join(k.s.Config.Dir, study.Name), k.s.Text, 0o666)
	}
}

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

// printFailed says where the output of failed trials is, and how to try them again.
func printFailed(out io.Writer, r *tune.Result, dir, word string) {
	failed := 0
	for _, t := range r.Trials() {
		if t.State == tune.Failed {
			failed++
		}
	}
	if failed > 0 {
		fmt.Fprintf(out, "%s failed; see %s\nto try again: launch tune --resume --failed restart %s\n", plural.Of(failed, "trial"), filepath.Join(dir, "trials"), ssh.Quote([]string{word}))
	}
}

// resumeWord is what to hand to --resume: the file, or the folder if a flag chose another.
func resumeWord(file string, s *study.Study) string {
	if again, err := study.Load(file); err == nil && again.Config.Dir == s.Config.Dir {
		return file
	}
	return s.Config.Dir
}

// writeResults writes tables and pictures of a search into its folder, and says which.
func writeResults(dir string, r *tune.Result) (written []string, err error) {
	v := r.View()
	var errs []error
	for _, w := range []struct {
		name  string
		write func(path string) error
	}{
		{"trials.csv", func(path string) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			return errors.Join(show.TrialsCSV(f, v), f.Close())
		}},
		{"curves.png", func(path string) error { return show.Curves(path, v) }},
		{"report.html", func(path string) error { return show.HTML(path, r.Name, v) }},
	} {
		path := filepath.Join(dir, w.name)
		if err := w.write(path); err != nil {
			errs = append(errs, err)
			continue
		}
		written = append(written, path)
	}
	return written, errors.Join(errs...)
}

// maxFront is how many trials of a Pareto front are printed.
const maxFront = 20

// printFront says which trials are on the Pareto front, and their commands if s is not nil.
func printFront(out io.Writer, s *study.Study, r *tune.Result) {
	front := r.Front()
	if len(front) == 0 {
		fmt.Fprintln(out, "\nno trial has a result")
		return
	}
	fmt.Fprintf(out, "\nPareto front, by %s first:\n", r.Metric)
	for _, t := range front[:min(len(front), maxFront)] {
		fmt.Fprintf(out, "  %s:", t.Name())
		for i, x := range r.Values(t) {
			fmt.Fprintf(out, " %s %.6g", r.Objectives()[i].Metric, x)
		}
		if s != nil {
			fmt.Fprintf(out, "\n    %s", commandText(s, t))
		}
		fmt.Fprintln(out)
	}
	if n := len(front); n > maxFront {
		fmt.Fprintf(out, "  ... and %d more\n", n-maxFront)
	}
}

// printBest says which trial was the best, and its command. s is nil for the study of a program,
// whose trials are no commands.
func printBest(out io.Writer, s *study.Study, r *tune.Result, written []string) {
	best := r.BestTrial()
	switch {
	case len(r.Objectives()) > 1:
		printFront(out, s, r)
	case best.Number < 0:
		fmt.Fprintln(out, "\nno trial has a result")
	default:
		fmt.Fprintf(out, "\nbest: %s with %s %.6g\n", best.Name(), r.Metric, r.Value(r.BestTrial()))
		for name, value := range best.Params.All() {
			fmt.Fprintf(out, "  %s: %v\n", name, value)
		}
		if s != nil {
			fmt.Fprintf(out, "command: %s\n", commandText(s, best))
		}
	}
	if r.Halted != "" {
		fmt.Fprintf(out, "ended by: %s\n", r.Halted)
	}
	if r.Missed != "" {
		fmt.Fprintf(out, "%s\nto go on: launch tune --resume, with a later deadline\n", r.Missed)
	}
	fmt.Fprintf(out, "decisions: %s\n", r.DecisionHash())
	if len(written) > 0 {
		fmt.Fprintf(out, "results: %s\n", strings.Join(written, " "))
	}
}
