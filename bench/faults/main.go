// Command faults shows what faults do to training: a table of what was done to a job, what the job
// did, how long it made no progress, and how many examples were lost or counted twice.
//
//	go build -o faults ./bench/faults && sudo ./faults              # all of them: some minutes
//	sudo ./faults -only 'kill|partition' -v                         # with all that the processes log
//
// Each fault meets a job of its own, of real processes in network namespaces (package
// internal/testing/netlab): a scheduler, servers and workers, each on a host of its own. The
// workers train a model whose parameters count examples (package internal/testing/countmodel), so
// that what is lost or doubled shows in the values at the end; one more parameter rounds, and
// reports whether the values are those of a run without faults, bit for bit. It needs Linux, root,
// iproute2 and /dev/net/tun.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/paragon-train/paragon/internal/testing/netlab"
)

func main() {
	var err error
	switch {
	case os.Getenv(helperEnv) != "":
		err = help()
	case os.Getenv(roleEnv) != "":
		err = process()
	default:
		err = table()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// table runs a job without faults and then one for each fault, and writes the table row by row. It
// fails if a fault had an effect that it must not have, after all rows.
func table() error {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "of the links' losses")
	only := flags.String("only", "", "regular expression of the faults' names")
	list := flags.Bool("list", false, "list the faults")
	verbose := flags.Bool("v", false, "show what the processes log")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only %q: %w", *only, err)
	}
	if *list {
		for _, f := range all() {
			fmt.Printf("%-40s %s\n", f.name, f.how)
		}
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	quiet, err := run(ctx, *seed, fault{name: "none"}, *verbose)
	if err != nil {
		return err
	}
	if quiet.trouble != "" {
		return fmt.Errorf("a run without faults: %s", quiet.trouble)
	}
	writeHead(os.Stdout, quiet)
	bad := 0
	for _, f := range all() {
		if !match.MatchString(f.name) {
			continue
		}
		r, err := run(ctx, *seed, f, *verbose)
		if errors.Is(err, netlab.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if r.judge(f, quiet); r.trouble != "" {
			bad++
		}
		writeRow(os.Stdout, f, r, quiet)
	}
	if bad > 0 {
		return fmt.Errorf("%d faults had effects that they must not have", bad)
	}
	return nil
}
