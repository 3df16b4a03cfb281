// Command soak trains for a long time while faults come, one every 20 to 60 seconds, and checks
// that nothing is lost.
//
//	make soak MINUTES=60
//	go build -o bin/ ./launch ./bench/soak && sudo bin/soak -minutes 60 -launch bin/launch
//
// It runs `launch` as users do, with hosts reached by ssh: each host is a network namespace
// (package internal/testing/netlab), and in place of the ssh client stands this program, which runs
// what it is asked in the namespace. The workers train the model of package
// internal/testing/countmodel, whose parameters count how often each example was used. Faults are
// drawn from a seed: kill -9 of workers, servers and the scheduler, hosts that are cut off or stand
// still for less and for more than their lease, lossy and slow links, hosts and servers added and
// removed.
//
// It fails if training stands still for longer than -still, if an example was lost or counted
// twice, if the workers end with different values, or if memory or open files of processes grow
// from the second quarter of the run to the last, the launcher's, too. It needs Linux, root,
// iproute2 and /dev/net/tun.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "ssh":
		err = standIn(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "worker":
		err = work()
	default:
		err = soak()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// config is the command line.
type config struct {
	minutes float64
	seed    uint64
	launch  string

	// still is how long training may stand still.
	still time.Duration

	// min and max bound the time between faults.
	min, max time.Duration

	// cifar10 is the program to train with in place of the counting model, and epochs how many of
	// its own.
	cifar10 string
	epochs  int

	// quiet keeps faults away.
	quiet bool

	verbose bool
}

// soak reads the flags and runs jobs for the whole time. The seed is printed first: with it the
// same faults come again, though not at the same moments of the job.
func soak() error {
	var c config
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.Float64Var(&c.minutes, "minutes", 60, "how long faults come")
	flags.Uint64Var(&c.seed, "seed", uint64(time.Now().Unix()), "of the faults")
	flags.StringVar(&c.launch, "launch", "bin/launch", "the launch program")
	flags.DurationVar(&c.still, "still", 40*time.Second, "the longest time without progress there may be")
	flags.DurationVar(&c.min, "min", 20*time.Second, "the shortest time between faults")
	flags.DurationVar(&c.max, "max", time.Minute, "the longest time between faults")
	flags.StringVar(&c.cifar10, "cifar10", "", "train with examples/cifar10, this program, on synthetic images: without faults first, then with faults to its end")
	flags.IntVar(&c.epochs, "epochs", 6, "of -cifar10")
	flags.BoolVar(&c.verbose, "v", false, "show what launch says")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if c.minutes <= 0 || c.min <= 0 || c.max < c.min {
		return fmt.Errorf("got -minutes %v, -min %v and -max %v, want times above 0 in order", c.minutes, c.min, c.max)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fmt.Printf("seed %d\n", c.seed)
	if c.cifar10 == "" {
		return count(ctx, c)
	}
	return compare(ctx, c)
}

// count runs jobs of the counting model, one after the other, for the whole time.
func count(ctx context.Context, c config) error {
	for left := time.Duration(c.minutes * float64(time.Minute)); left > fewest; c.seed++ {
		c.minutes = left.Minutes()
		begun := time.Now()
		if _, err := runOnce(ctx, &c); err != nil {
			return err
		}
		left -= time.Since(begun)
	}
	return nil
}

// compare trains with cifar10 without faults and with them, and wants the same accuracy.
func compare(ctx context.Context, c config) error {
	quiet := c
	quiet.quiet = true
	want, err := runOnce(ctx, &quiet)
	if err != nil {
		return fmt.Errorf("without faults: %w", err)
	}
	got, err := runOnce(ctx, &c)
	if err != nil {
		return err
	}
	fmt.Printf("accuracy %.4f, without faults %.4f\n", got, want)
	if math.Abs(got-want) > noise {
		return fmt.Errorf("accuracy %.4f, without faults %.4f: want them within %.2f", got, want, noise)
	}
	return nil
}

// fewest is the time that is worth another job.
const fewest = 30 * time.Second

// noise is how far apart the accuracies of two runs may be whose workers come and go at other
// steps: 2,000 test images, a model that has not converged.
const noise = 0.1

// runOnce runs one job, and returns the accuracy that it tells last.
func runOnce(ctx context.Context, c *config) (accuracy float64, err error) {
	j, err := start(ctx, c)
	if err != nil {
		return 0, err
	}
	defer j.close()
	err = j.run(ctx)
	return j.said.accuracy, err
}
