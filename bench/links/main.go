// Command links measures what each compression does for training over a slow link: bytes and time of a step.
//
//	go build -o links ./bench/links && sudo ./links -rates 1gbit,100mbit -steps 10 -count 2
//
// It makes network namespaces, one for the scheduler and the server and one for each host of workers (-hosts), joins each of these to the first by a pair of virtual
// Ethernet devices, limited by tc's token bucket filter, starts a job of processes in them, and removes the namespaces in the end.
// It needs root and iproute2 (ip, tc). -host-sums runs a job for each setting of PARAGON_HOST_SUMS.
//
// The workers train ResNet18 on synthetic images of 32×32; all compressions take turns within one job, count times. The network
// device of the first host counts the bytes of all its workers, with headers. A step's time is the time between two barriers, divided by
// the number of steps between them. The table has the medians over the turns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/kvstore"
)

// settings are what the command line asks for, and what each process of the job is given.
type settings struct {
	Workers, Hosts, Steps, Count, Batch int
	Ratio                               float64
	Ways                                []kvstore.Compression
}

func main() {
	var err error
	if os.Getenv(settingsEnv) != "" {
		err = process()
	} else {
		err = measure()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "links:", err)
		os.Exit(1)
	}
}

func measure() error {
	var s settings
	flags := flag.NewFlagSet("links", flag.ContinueOnError)
	rates := flags.String("rates", "1gbit,100mbit", "of the link, as tc takes them")
	ways := flags.String("ways", "none,fp16/fp16,bf16/bf16,2bit,1bit,topk,topk/bf16", "compressions: of pushes, and behind a slash of values sent back")
	flags.IntVar(&s.Workers, "workers", 2, "number of workers")
	flags.IntVar(&s.Hosts, "hosts", 1, "number of hosts that the workers are spread over")
	sums := flags.String("host-sums", "auto", "settings of PARAGON_HOST_SUMS, each for a job of its own")
	flags.IntVar(&s.Steps, "steps", 10, "steps of a turn")
	flags.IntVar(&s.Count, "count", 2, "turns of each compression")
	flags.IntVar(&s.Batch, "batch", 16, "images of a worker's step")
	flags.Float64Var(&s.Ratio, "ratio", 0.01, "of topk")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if s.Hosts < 1 || s.Hosts > 200 || s.Workers%s.Hosts != 0 {
		return fmt.Errorf("got %d workers on %d hosts, want as many on each of 1 to 200", s.Workers, s.Hosts)
	}
	if s.Workers < 1 || s.Steps < 1 || s.Count < 1 || s.Batch < 1 {
		return fmt.Errorf("got %d workers, %d steps, %d turns and a batch of %d, want at least 1 of each", s.Workers, s.Steps, s.Count, s.Batch)
	}
	for way := range strings.SplitSeq(*ways, ",") {
		var c kvstore.Compression
		c.Type, c.Pull, _ = strings.Cut(way, "/")
		if c.Type == "topk" {
			c.Ratio = s.Ratio
		}
		if err := c.Validate(); err != nil {
			return err
		}
		s.Ways = append(s.Ways, c)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for rate := range strings.SplitSeq(*rates, ",") {
		for setting := range strings.SplitSeq(*sums, ",") {
			turns, err := runAt(ctx, rate, setting, &s)
			if err != nil {
				return fmt.Errorf("at %s: %w", rate, err)
			}
			if err := writeTable(os.Stdout, rate, setting, &s, turns); err != nil {
				return err
			}
		}
	}
	return nil
}

// runAt runs a job over a link of a rate.
func runAt(ctx context.Context, rate, sums string, s *settings) (turns []turn, err error) {
	l, err := newLink(ctx, rate, s.Hosts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.remove()) }()
	return runJob(ctx, l, sums, s)
}
