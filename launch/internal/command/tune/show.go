package tune

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/show"
	"github.com/paragon-train/paragon/tune/study"
)

// logFile is the log in the folder path, or path itself.
func logFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("launch: tune: %w; want the folder of a study, such as runs/mnist", err)
	}
	if !info.IsDir() {
		return path, nil
	}
	log := filepath.Join(path, "log.jsonl")
	if _, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("launch: tune: the folder %s has no log.jsonl; want the folder of a study, such as runs/mnist", path)
	}
	return log, nil
}

// showCommand is `launch tune show`. Without the study's file, as after a search of a Go program,
// the commands of trials are not known, and the rest is shown.
func showCommand(out io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show a finished or running search",
		ArgsUsage: "DIR",
		Description: `Prints the table of trials and the best parameters, and writes trials.csv, curves.png and report.html into the study's folder.
It reads the log alone, so it shows the search of a Go program, too:

   launch tune show runs/mnist`,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return command.Usagef("tune show: got %d arguments, want the folder of a study", c.NArg())
			}
			path, err := logFile(c.Args().First())
			if err != nil {
				return err
			}
			r, err := tune.ReadResult(path)
			if err != nil {
				return err
			}
			s, err := study.Find(path)
			if err != nil && !errors.Is(err, study.ErrNoFile) {
				return err
			}
			status := show.NewLines(out)
			status.Name = r.Name
			if err := status.Close(r.View()); err != nil {
				return err
			}
			written, err := writeResults(filepath.Dir(path), r)
			printBest(out, s, r, written)
			return err
		},
	}
}

// whyCommand is `launch tune why`.
func whyCommand(out io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "explain the decisions about a trial: by which rule, and compared with which trials",
		ArgsUsage: "DIR TRIAL",
		Description: `Reads the log of a study:

   launch tune why runs/mnist 7`,
		Action: func(c *cli.Context) error {
			if c.NArg() != 2 {
				return command.Usagef("tune why: got %d arguments, want the folder of a study and the number of a trial", c.NArg())
			}
			trial, err := strconv.Atoi(trimTrial(c.Args().Get(1)))
			if err != nil || trial < 0 {
				return command.Usagef("tune why: %q is not a trial number, such as 7", c.Args().Get(1))
			}
			path, err := logFile(c.Args().First())
			if err != nil {
				return err
			}
			var events []tune.Event
			if err := tune.ReadLog(path, func(e tune.Event) error { events = append(events, e); return nil }); err != nil {
				return err
			}
			return show.Why(out, events, trial)
		},
	}
}

// trimTrial is 7 of trial-000007.
func trimTrial(s string) string {
	if len(s) > 6 && s[:6] == "trial-" {
		return s[6:]
	}
	return s
}

// replayCommand is `launch tune replay`.
func replayCommand(out io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "replay",
		Usage:     "recompute every proposal and decision of a log",
		ArgsUsage: "LOG",
		Description: `Recomputes the proposals and decisions of a search from the reports in its log. The exit code is 1 if the log has others:

   launch tune replay runs/mnist/log.jsonl
   launch tune replay --study changed.yaml runs/mnist`,
		Flags: []cli.Flag{&cli.StringFlag{Name: "study", Usage: "`FILE` with the rules", DefaultText: "study.yaml beside the log"}},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return command.Usagef("tune replay: got %d arguments, want the log of a study", c.NArg())
			}
			path, err := logFile(c.Args().First())
			if err != nil {
				return err
			}
			s, err := study.Find(path)
			if c.IsSet("study") {
				s, err = study.Load(c.String("study"))
			}
			if err != nil {
				return err
			}
			r, err := tune.Replay(path, s.Config, study.Rules()...)
			if diverged := (*tune.DivergedError)(nil); errors.As(err, &diverged) {
				return fmt.Errorf("%w\nlaunch: tune: replay: the log was made with another configuration than the file, or was changed", err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%d events: %d proposals and %d decisions, all as recomputed\ndecisions: %s\n", r.Events, r.Proposals, r.Decisions, r.DecisionHash)
			if r.Torn > 0 {
				fmt.Fprintf(out, "the log ends in %d bytes of incomplete lines\n", r.Torn)
			}
			return nil
		},
	}
}
