package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/top"
)

// topDescription is what launch top --help says.
const topDescription = `Shows the workers of a job, those that the others wait for first, with the parts of their steps; the servers; who waits for whom; and
recent events. It asks the scheduler once a second and does not slow the job down:

   launch top                                   the job of this folder, or the only one
   launch top --job 3f2a                        another one
   launch top --once                            one table, for a log
   launch top --json | jq '.rates.workers[] | select(.slow) | {rank, host, last_share, last_gap_seconds}'

Keys: s sorts, enter shows one worker, p pauses, ? helps, q quits. Colours are those of the terminal; with NO_COLOR in the
environment there are none. Run it on the machine where launch runs, as the same user, or with --join, as launch ctl --help says.`

// RunTop is `launch top`.
func RunTop(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:        "launch top",
		Usage:       "watch what the processes of a job do",
		Description: topDescription,
		Flags: jobFlags(
			&cli.BoolFlag{Name: "once", Usage: "write one table of the last seconds, and end", DisableDefaultText: true},
			&cli.BoolFlag{Name: "json", Usage: "write the same as one JSON document", DisableDefaultText: true}),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return command.Usagef("top: got %q, want flags only", c.Args().First())
			}

			// JSON is always of one moment.
			once := c.Bool("once") || c.Bool("json")
			out := command.FileOf(stdout)
			if !once && (out == nil || !term.IsTerminal(int(out.Fd())) || !term.IsTerminal(int(os.Stdin.Fd()))) {
				return errors.New("launch: top: the standard input and output are not a terminal; use --once or --json")
			}
			k, err := findJob(c, record.Find)
			if err != nil {
				return err
			}
			source := jobSource{k}
			if !once {
				return top.Run(c.Context, source, k.Started, os.Stdin, out)
			}
			d, err := top.Once(c.Context, patientSource{source})
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return writeIndented(c.App.Writer, d)
			}
			return writeTop(c.App.Writer, d)
		},
	}
	return command.RunApp(app, args, stdout, stderr)
}

// writeIndented writes v as JSON for people and programs.
func writeIndented(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("launch: top: %w", err)
	}
	_, err = bytes.NewBuffer(append(b, '\n')).WriteTo(w)
	return err
}

// A jobSource asks the scheduler of a job once.
type jobSource struct{ *controller }

// Ask implements top.Source.
func (s jobSource) Ask(ctx context.Context, q control.Request, into control.Answer) ([]byte, error) {
	return s.askOnce(ctx, q, into)
}

// Over looks for the job's record, which a launcher removes at its end.
func (s jobSource) Over() bool {
	if s.remote != nil {
		return s.remote.over(s.Job)
	}
	dir, err := record.Dir(os.Getenv)
	if err != nil {
		return false
	}
	_, err = record.Find(dir, s.Job, "")
	return err != nil
}

// A patientSource asks until the scheduler answers, as ctl does.
type patientSource struct{ jobSource }

// Ask implements top.Source.
func (s patientSource) Ask(ctx context.Context, q control.Request, into control.Answer) ([]byte, error) {
	return s.ask(ctx, q, into)
}
