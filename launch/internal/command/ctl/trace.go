package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/metrics"
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

// tracePause is the time between two requests for the parts of a trace.
const tracePause = 500 * time.Millisecond

// collect fetches the parts of a trace until the scheduler has no more. Notes on progress go to
// stderr. A trace without any span is an error.
func (k *controller) collect(ctx context.Context, stderr io.Writer, begun control.Trace) (*trace.Timeline, error) {
	line := &trace.Timeline{Job: begun.Job}
	nodes := map[uint64]*trace.Node{}

	// after is the number of the newest chunk that has come. The scheduler drops chunks up to
	// it, and sends the ones behind it again if this answer is lost.
	state, after := "", uint64(0)
	for {
		var p control.TraceParts
		if _, err := k.ask(ctx, control.Request{Op: control.OpTraceParts, Trace: begun.Trace, After: after}, &p); err != nil {
			return nil, fmt.Errorf("launch: trace %d: %w", begun.Trace, err)
		}
		for _, x := range p.Nodes {
			n := nodes[x.Node]
			if n == nil {
				n = &trace.Node{ID: x.Node, Role: x.Role, Rank: int(x.Rank), Host: x.Host, PID: x.PID}
				nodes[x.Node] = n
			}

			// Each answer has the newest state of a node: its clock is known better as
			// heartbeats come.
			n.Dropped, n.Missing = x.Dropped, x.Missing
			if err := n.SetClock(time.Duration(x.OffsetNS), time.Duration(x.BoundNS)); err != nil {
				return nil, err
			}
		}
		for _, x := range p.Chunks {
			n := nodes[x.Node]
			if n == nil {
				return nil, fmt.Errorf("launch: trace %d: got a chunk of node %d, which is not in the trace", begun.Trace, x.Node)
			}
			if err := n.AddChunk(x.Data); err != nil {
				return nil, fmt.Errorf("launch: trace %d: %v: %w", begun.Trace, n, err)
			}
			after = x.Number
		}
		if p.State != state && p.State == control.TraceCollecting {
			fmt.Fprintln(stderr, "launch: recording has ended; fetching the spans")
		}
		state = p.State
		if state == control.TraceDone && after == p.Last {
			break
		}
		if len(p.Chunks) > 0 {
			continue // there may be more
		}
		select {
		case <-time.After(tracePause):
		case <-ctx.Done():
			return nil, fmt.Errorf("launch: trace %d: %w", begun.Trace, context.Cause(ctx))
		}
	}
	spans := 0
	for _, n := range nodes {
		line.Nodes = append(line.Nodes, *n)
		spans += len(n.Spans)
	}

	// Map order reaches no file.
	slices.SortFunc(line.Nodes, func(a, b trace.Node) int { return int(int64(a.ID) - int64(b.ID)) })
	if spans == 0 {
		return nil, fmt.Errorf("launch: trace %d: %w", begun.Trace, errors.Join(errors.New("no process has recorded a span"), missingOf(line)))
	}
	return line, nil
}

// missingOf joins the reasons why nodes' spans are missing; nil if no node has one.
func missingOf(line *trace.Timeline) (err error) {
	for i := range line.Nodes {
		if n := &line.Nodes[i]; n.Missing != "" {
			err = errors.Join(err, fmt.Errorf("%v: %s", n, n.Missing))
		}
	}
	return err
}

// checkOutput reports that a file cannot be written, which is to be known before minutes of a job
// are recorded for it.
func checkOutput(path string) error {
	if path == "" {
		return command.Usagef("ctl trace: --output is empty; want a file")
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("launch: --output %s is not a regular file", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("launch: --output %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			// The error's path is that of the temporary file.
			err = failed.Err
		}
		return fmt.Errorf("launch: --output %s: create a file in %s: %w", path, filepath.Dir(path), err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// writeTrace writes the file, and says what is in it.
func writeTrace(stdout, stderr io.Writer, line *trace.Timeline, path string) error {
	s, err := line.WriteFile(vfs.OS{}, path)
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	for _, text := range s.Warnings {
		fmt.Fprintf(stderr, "launch: %s\n", text)
	}

	// Workers that report no steps have none in common, and the median is 0.
	steps := "no steps"
	if s.Median > 0 {
		steps = fmt.Sprintf("median step %v", s.Median.Round(10*time.Microsecond))
		if s.First <= s.Last {
			steps = fmt.Sprintf("steps %d to %d, median step %v", s.First, s.Last, s.Median.Round(10*time.Microsecond))
		}
	}
	if err := writeBreakdown(stdout, s.Workers); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %s; %d spans in %v, %d of %d pushes with their rounds; clocks are known to ±%v.\nOpen it at https://ui.perfetto.dev or in chrome://tracing.\n",
		path, steps, s.Spans, s.Span.Round(time.Millisecond), s.Arrows, s.Pushes, s.Bound.Round(time.Microsecond))
	return nil
}

// writeBreakdown writes where the time of the workers' steps went.
func writeBreakdown(w io.Writer, workers []trace.Breakdown) error {
	if len(workers) == 0 {
		return nil
	}
	t := metrics.Table{Columns: []string{"worker", "step", "compute", "wait", "for workers", "for servers", "for values", "unknown", "data", "save", "other"}}
	for _, b := range workers {
		share := func(d time.Duration) string { return fmt.Sprintf("%.1f %%", 100*float64(d)/float64(b.Step)) }
		t.Row(b.Node, b.Step.Round(10*time.Microsecond), share(b.Compute), share(b.Wait), share(b.Workers), share(b.Server), share(b.Answer), share(b.Unknown), share(b.Data), share(b.Save), share(b.Other))
	}
	if _, err := t.WriteTo(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
