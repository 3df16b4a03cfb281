// Command churn lets servers or workers of a job come and go, one after the other, and draws the memory of the processes that stay.
//
//	go build -o bin/ ./launch ./bench/churn
//	bin/churn -servers 500 -png servers.png     # launch ctl add-server and remove-server, 500 times
//	bin/churn -workers 200 -png workers.png     # launch ctl add and remove of a host
//
// The job is one of `launch` on this machine: two workers and two servers train a perceptron of 4.7 MB with Adam, whose shards move to
// each server that comes, and away from it again. After each round it reads what the launcher, its agent, the scheduler, the servers and
// the workers that were there from the start have resident, and how many files they have open. What is live on their heaps after a
// collection is printed by the Go runtime (GODEBUG=gctrace=1) in whole MB; buffers that processes share count with all of the block of
// 32 MB that they were cut from.
//
// It fails where memory or open files of a process grow from the second quarter of the rounds to the last one. It needs Linux.
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
		err = churn()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "churn:", err)
		os.Exit(1)
	}
}

// config is the command line.
type config struct {
	servers, workers int // rounds
	launch           string
	png              string
	step             time.Duration
	state            bool // the scheduler keeps a journal
	verbose          bool
}

func churn() error {
	var c config
	flags := flag.NewFlagSet("churn", flag.ContinueOnError)
	flags.IntVar(&c.servers, "servers", 0, "how often a server comes and goes")
	flags.IntVar(&c.workers, "workers", 0, "how often a host with a worker comes and goes")
	flags.StringVar(&c.launch, "launch", "bin/launch", "the launch program")
	flags.StringVar(&c.png, "png", "", "file of the picture, .png or .svg; none: no picture")
	flags.DurationVar(&c.step, "step", 40*time.Millisecond, "pause of a worker after each step, so that the machine is not busy")
	flags.BoolVar(&c.state, "state", false, "let the scheduler keep a journal (launch --state), and print its size")
	flags.BoolVar(&c.verbose, "v", false, "show what launch says")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if (c.servers > 0) == (c.workers > 0) || c.servers < 0 || c.workers < 0 {
		return fmt.Errorf("got -servers %d and -workers %d, want one of them above 0", c.servers, c.workers)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	j, err := start(ctx, &c)
	if err != nil {
		return err
	}
	defer j.Close()
	rounds, round, what := c.servers, j.server, "servers"
	if c.workers > 0 {
		rounds, round, what = c.workers, j.worker, "workers"
	}
	m, err := newMemory(j)
	if err != nil {
		return j.Explain(err)
	}
	begun, said := time.Now(), time.Now()
	journal := make([]int64, 0, rounds)
	for i := range rounds {
		if err := round(ctx); err != nil {
			return j.Explain(fmt.Errorf("round %d: %w", i, err))
		}
		if err := m.sample(); err != nil {
			return j.Explain(fmt.Errorf("round %d: %w", i, err))
		}
		size, err := j.journal()
		if err != nil {
			return err
		}
		journal = append(journal, size)
		if time.Since(said) > 30*time.Second {
			said = time.Now()
			fmt.Printf("%d of %d rounds, %.2f s each\n", i+1, rounds, time.Since(begun).Seconds()/float64(i+1))
		}
	}
	fmt.Printf("%d rounds of %s that came and went, %.2f s each\n", rounds, what, time.Since(begun).Seconds()/float64(rounds))
	wrong := m.judge(os.Stdout)
	if c.state {
		fmt.Printf("the scheduler's journal: %d KiB after a quarter, %d after half, %d at the end\n", journal[rounds/4]>>10, journal[rounds/2]>>10, journal[rounds-1]>>10)
	}
	if c.png != "" {
		if err := m.draw(c.png, fmt.Sprintf("%d %s come and go", rounds, what)); err != nil {
			return err
		}
	}
	return wrong
}
