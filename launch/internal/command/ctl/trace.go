package ctl

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// traceCommand is `launch ctl trace`.
func traceCommand() *cli.Command {
	return &cli.Command{
		Name:  "trace",
		Usage: "record some steps of a running job as one timeline of all its processes",
		Description: `Records some steps of a running job and writes them as one timeline in Chrome's Trace Event Format:

   launch ctl trace --steps 20 -o t.json.gz
   launch ctl trace --seconds 5 --ranks 0,3-5 -o t.json.gz      5 seconds of workers 0, 3, 4 and 5

Open the file at https://ui.perfetto.dev or in chrome://tracing. A worker has lanes for its steps, forward and backward passes, pushes, pulls and waits; a server
has lanes for its rounds and updates. Arrows lead from a push to its round, and on to the pull of the round's value. Programs that report no steps need --seconds.

The job goes on while it is recorded. At most 32 workers are recorded, slow ones first, and at most 32 servers.

The table has the mean step of each worker and the shares of its parts. "wait" is the time in which the training loop waits for values. Its parts are "for workers",
until the round's last contribution has reached the server; "for servers", until the server has closed the round; and "for values", until the value has come.`,
		Flags: jobFlags(
			&cli.IntFlag{Name: "steps", Usage: "record `N` steps of each worker, at most 1000", Value: 20},
			&cli.DurationFlag{Name: "within", Usage: "stop recording after `TIME`, even if workers have made fewer steps; at most 2m", Value: control.MaxTraceMillis * time.Millisecond},
			&cli.Float64Flag{Name: "seconds", Usage: "record `S` seconds in place of steps, at most 120", DefaultText: "record steps"},
			&cli.StringFlag{Name: "ranks", Usage: "record the workers of these `RANKS`, such as 0,3-5", DefaultText: "all, at most 32"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, with gzip if its name ends in .gz", Value: "trace.json.gz"},
		),
		Action: takeTrace,
	}
}

// traceRequest makes the request of the flags. Its errors are errors of usage.
func traceRequest(c *cli.Context) (q control.Request, err error) {
	q.Op = control.OpTrace
	if c.NArg() > 0 {
		return q, command.Usagef("ctl trace: got %q, want flags only", c.Args().First())
	}

	// Whichever is reached first ends the recording: the steps, or the time.
	q.WindowMillis = c.Duration("within").Milliseconds()
	if q.Steps = c.Int("steps"); q.Steps < 1 || q.Steps > control.MaxTraceSteps {
		return q, command.Usagef("ctl trace: --steps %d: want 1 to %d", q.Steps, control.MaxTraceSteps)
	}
	if q.WindowMillis < 1 || q.WindowMillis > control.MaxTraceMillis {
		return q, command.Usagef("ctl trace: --within %v: want more than 0 and at most %v", c.Duration("within"), control.MaxTraceMillis*time.Millisecond)
	}
	if c.IsSet("seconds") {
		if c.IsSet("steps") || c.IsSet("within") {
			return q, command.Usagef("ctl trace: --seconds with --steps or --within: want either seconds or steps")
		}
		s := c.Float64("seconds")
		if !(s > 0 && s <= control.MaxTraceMillis/1000) {
			return q, command.Usagef("ctl trace: --seconds %v: want more than 0 and at most %d", s, control.MaxTraceMillis/1000)
		}
		q.Steps, q.WindowMillis = 0, max(1, int64(s*1000))
	}
	if q.Ranks, err = parseRanks(c.String("ranks")); err != nil {
		return q, command.Usagef("ctl trace: --ranks %q: %v", c.String("ranks"), err)
	}
	return q, nil
}

// parseRanks reads a list such as 0,3-5: at most control.MaxTraced ranks. An empty text is no
// ranks.
func parseRanks(text string) (ranks []int32, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, both := strings.Cut(strings.TrimSpace(part), "-")
		if !both {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || b < a {
			return nil, fmt.Errorf("got %q, want ranks such as 0 or 3-5, with commas between them", part)
		}
		if uint64(len(ranks))+b-a >= control.MaxTraced {
			return nil, fmt.Errorf("got more than %d ranks, want at most %d", control.MaxTraced, control.MaxTraced)
		}
		for r := a; r <= b; r++ {
			ranks = append(ranks, int32(r))
		}
	}
	return ranks, nil
}

// takeTrace is `launch ctl trace`.
func takeTrace(c *cli.Context) error {
	q, err := traceRequest(c)
	if err != nil {
		return err
	}

	// The file is tried first, since it would be a pity to record for minutes and then to find
	// no place.
	if err := checkOutput(c.String("output")); err != nil {
		return err
	}
	k, err := findJob(c, record.Find)
	if err != nil {
		return err
	}

	// After a signal the scheduler is still told that nobody wants the trace, and processes
	// stop recording.
	ctx, forget := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)

	// A second Ctrl-C ends launch at once.
	context.AfterFunc(ctx, forget)
	defer forget()
	var begun control.Trace
	if _, err := k.ask(ctx, q, &begun); err != nil {
		return err
	}
	what := plural.Of(q.Steps, "step")
	if q.Steps == 0 {
		what = control.Seconds(time.Duration(q.WindowMillis) * time.Millisecond)
	}
	fmt.Fprintf(c.App.ErrWriter, "launch: recording %s of %s and %s, starting in %s\n", what, plural.Of(begun.Workers, "worker"), plural.Of(begun.Servers, "server"), control.Seconds(time.Duration(begun.StartMillis)*time.Millisecond))
	if begun.LeftOut > 0 {
		fmt.Fprintf(c.App.ErrWriter, "launch: processes left out: %d; choose workers with --ranks\n", begun.LeftOut)
	}
	line, err := k.collect(ctx, c.App.ErrWriter, begun)
	// The scheduler drops the trace now, also after Ctrl-C or an error.
	last, cancel := context.WithTimeout(c.Context, 5*time.Second)
	defer cancel()

	// If this fails, the scheduler drops the trace by itself later.
	_, _ = k.ask(last, control.Request{Op: control.OpTraceEnd, Trace: begun.Trace}, &control.Done{})
	if ctx.Err() != nil {
		return fmt.Errorf("launch: trace %d: stopped by a signal; nothing was written", begun.Trace)
	}
	if err != nil {
		return err
	}
	line.Steps = q.Steps
	return writeTrace(c.App.Writer, c.App.ErrWriter, line, c.String("output"))
}
