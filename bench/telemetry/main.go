// Command telemetry measures how much tracing, scraping and an open live page slow a job down.
//
//	go build -o bin/ ./launch ./bench/telemetry
//	bin/telemetry                                # three and a half minutes
//	bin/telemetry -cycles 2 -window 3s           # a short look
//
// One job of `launch` runs on this machine: two workers train a perceptron of eight layers with two servers. Time is divided into windows. In baseline windows nothing observes the job.
// In the others its processes record spans for launch ctl trace, or its metrics are scraped each second, or a live page is open. The kinds take turns, so
// that other load on the machine falls on all of them alike. Workers report the times of their steps; the
// scheduler keeps them by the second, and is asked for them once, at the end.
//
// The table has the median step of each kind of window and its ratio to the baseline's, with a 95 % confidence interval
// (bootstrap over the cycles). What lies outside the windows, such as the fetching of spans, does not count. Parts of the machine's speed come and
// go within seconds, so a busy machine gives wide intervals.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		err = work()
	} else {
		err = measure()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "telemetry:", err)
		os.Exit(1)
	}
}

// config is the command line.
type config struct {
	launch  string
	cycles  int
	window  time.Duration
	verbose bool
}

// leastWindow has two seconds of steps: the first second of a window does not count.
const leastWindow = 3 * time.Second

func (c *config) parse(args []string) error {
	flags := flag.NewFlagSet("telemetry", flag.ContinueOnError)
	flags.StringVar(&c.launch, "launch", "bin/launch", "the launch program")
	flags.IntVar(&c.cycles, "cycles", 7, "how often each kind of window comes")
	flags.DurationVar(&c.window, "window", 4*time.Second, "length of a window")
	flags.BoolVar(&c.verbose, "v", false, "show what launch says")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("got %q, want flags only", flags.Arg(0))
	case c.cycles < 1:
		return fmt.Errorf("-cycles %d: want at least 1", c.cycles)
	case c.window < leastWindow || c.window > time.Minute:
		return fmt.Errorf("-window %v: want %v to %v", c.window, leastWindow, time.Minute)
	case time.Duration(c.cycles)*(2*time.Duration(len(kinds))*c.window+slack) > remembered:
		return fmt.Errorf("-cycles %d of windows of %v: the scheduler remembers each second of the last ten minutes only, want fewer or shorter ones", c.cycles, c.window)
	}
	return nil
}

// slack is what a cycle takes beside its windows, and remembered what the scheduler keeps second by second, less what the start of the job takes.
const (
	slack      = 8 * time.Second
	remembered = 9 * time.Minute
)

// settle is how long the last steps take to be with the scheduler: two heartbeats.
const settle = 2 * time.Second

func measure() error {
	var c config
	if err := c.parse(os.Args[1:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	j, err := start(ctx, &c)
	if err != nil {
		return err
	}
	defer j.Close()
	begun := time.Now()
	windows, err := j.look(ctx, &c)
	if err != nil {
		return j.Explain(err)
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	points, err := j.series(ctx)
	if err != nil {
		return j.Explain(err)
	}
	for i := range windows {
		windows[i].steps = points.within(windows[i].from, windows[i].to)
	}
	fmt.Printf("%d cycles in %.0f s, 2 workers and 2 servers\n\n", c.cycles, time.Since(begun).Seconds())
	return writeTable(os.Stdout, windows)
}
