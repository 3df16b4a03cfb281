// Command trials measures what it brings to move replicas between the trials of a search, against a fixed half of the slots for each.
//
//	go build -o bin/ ./launch ./bench/trials && bin/trials
//
// Two trials train at the same time on four slots: this machine, under two addresses of loopback with two slots each, reached through a stand-in for the ssh
// client. Each trial is an elastic job of real processes that adapts its batch size (worker.FitConfig.Adapt) and tells its goodput, by which schedule.Goodput divides
// the slots. Workers wait for a fixed time for each step and example in place of computing (package internal/testing/pacedmodel), so that four workers on two processors
// are as fast as with a device each.
//
// With halves each trial keeps two replicas. Unequal trials are the case for which replicas move: the shorter one's slots would be idle after its end. Trials of equal
// length end at the same time, and there is nothing to gain. The program prints what each trial had and when it ended, in Markdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "ssh":
		err = standIn(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "worker":
		os.Exit(workOfSearch())
	case len(os.Args) > 1 && os.Args[1] == "command":
		err = workOfCommand(os.Args[2:])
	default:
		err = measure(os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "trials:", err)
		os.Exit(1)
	}
}

// config is the command line.
type config struct {
	launch, logs string
	short, long  int // epochs of the trials
	only         *regexp.Regexp
	verbose      bool
}

// A way is one search.
type way struct {
	name   string
	epochs [2]int
	halves bool
	tune   bool // by launch tune
	remove bool // the second host is taken away in the middle
}

func (c *config) ways() []way {
	unequal, equal := [2]int{c.short, c.long}, [2]int{(c.short + c.long) / 2, (c.short + c.long) / 2}
	return []way{
		{name: "unequal, halves", epochs: unequal, halves: true},
		{name: "unequal, goodput", epochs: unequal},
		{name: "unequal, launch tune", epochs: unequal, tune: true},
		{name: "unequal, a host is taken away", epochs: unequal, remove: true},
		{name: "equal, halves", epochs: equal, halves: true},
		{name: "equal, goodput", epochs: equal},
	}
}

func measure(args []string) error {
	var c config
	flags := flag.NewFlagSet("trials", flag.ContinueOnError)
	flags.StringVar(&c.launch, "launch", "bin/launch", "the launch program")
	flags.StringVar(&c.logs, "logs", "", "folder for the searches' logs; empty: a temporary one")
	flags.IntVar(&c.short, "short", 8, "epochs of the shorter trial")
	flags.IntVar(&c.long, "long", 24, "epochs of the longer one")
	only := flags.String("only", "", "regular expression of the names of searches")
	flags.BoolVar(&c.verbose, "v", false, "show the searches' status")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.short < 1 || c.long < c.short {
		return fmt.Errorf("got -short %d and -long %d, want at least 1 epoch, in order", c.short, c.long)
	}
	var err error
	if c.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only %q: %w", *only, err)
	}
	if c.launch, err = filepath.Abs(c.launch); err != nil {
		return err
	}
	if _, err := os.Stat(c.launch); err != nil {
		return fmt.Errorf("-launch: %w; build it: go build -o bin/ ./launch", err)
	}
	if c.logs == "" {
		if c.logs, err = os.MkdirTemp("", "paragon-trials"); err != nil {
			return err
		}
		defer os.RemoveAll(c.logs)
	} else if c.logs, err = filepath.Abs(c.logs); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	begin := time.Now()
	var all []outcome
	for i, w := range c.ways() {
		if !c.only.MatchString(w.name) {
			continue
		}
		dir := filepath.Join(c.logs, fmt.Sprint(i))
		if err := c.search(ctx, w, dir); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		o, err := read(w, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		all = append(all, o)
		fmt.Fprintf(os.Stderr, "%s: %.1f s\n", w.name, o.end().Seconds())
	}
	fmt.Fprintf(os.Stderr, "all took %v\n", time.Since(begin).Round(time.Second))
	return write(os.Stdout, all)
}
