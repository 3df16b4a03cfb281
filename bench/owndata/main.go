// Command owndata shows that a run on one's own images is the same wherever they lie, in whatever
// format, and whatever happens to its processes.
//
//	go build -o bin/ ./launch ./bench/owndata && bin/owndata -launch bin/launch
//	bin/owndata -images 20000 -photos /usr/share/backgrounds -only same
//
// It makes a folder of JPEG images (package internal/testing/photos), packs it as .rec, tar, MDS
// and TFRecord without encoding anything again, and prints three tables:
//
//   - same: a small network is trained on each format from the disk and from a stand-in of S3 on
//     this machine, with one reader and with eight, with a cache that is empty and with a full one.
//     All runs must end with the same parameters, bit for bit.
//   - killed: jobs of two workers and two servers, started by launch --restarts. A worker kills
//     itself several times, with SIGKILL; the job goes on from its checkpoint. It must end with the
//     parameters of the job that nothing happened to.
//   - once: an elastic job, of which a worker joins and three are killed; then it is stopped and
//     goes on with more workers. Its parameters count how often each image was used in steps that
//     were acknowledged (package internal/testing/countmodel): once in each epoch. Each image that
//     is read is compared with what it must be. Some of the jobs mix the images in windows of one
//     or two blocks, such as shards.
//
// It ends with an error if anything differs.
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
	"time"
)

// buckets says that this program reads from buckets.
var buckets bool

// config is what is asked for.
type config struct {
	images  int
	classes int

	// size is the width of the images that are trained on, and largest the longer side of those
	// that are made.
	size    int
	largest int

	// photos is a folder of real ones; empty: they are made.
	photos string

	launch string

	// dir is the folder of the sets; empty: a temporary one.
	dir string

	latency time.Duration

	// only chooses tables, and what chooses formats and places, such as "tar from S3".
	only *regexp.Regexp
	what *regexp.Regexp

	// kills is how often each job is killed.
	kills int

	// show shows what launch says.
	show bool
}

func main() {
	var err error
	if os.Getenv(settingsEnv) != "" {
		err = work()
	} else {
		err = tables(os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "owndata:", err)
		os.Exit(1)
	}
}

// tables writes those that are asked for.
func tables(args []string) error {
	var c config
	flags := flag.NewFlagSet("owndata", flag.ContinueOnError)
	flags.IntVar(&c.images, "images", 2000, "how many are made")
	flags.IntVar(&c.classes, "classes", 10, "of how many classes")
	flags.IntVar(&c.size, "size", 32, "side of the images that are trained on")
	flags.IntVar(&c.largest, "largest", 160, "longest side of the images that are made")
	flags.StringVar(&c.photos, "photos", "", "folder with photographs, JPEG files, that are in the set besides")
	flags.StringVar(&c.launch, "launch", "bin/launch", "the launch program")
	flags.StringVar(&c.dir, "dir", "", "folder for the sets, which are kept; empty: a temporary one")
	flags.DurationVar(&c.latency, "latency", 0, "of the stand-in of S3, before the first byte of each answer")
	only := flags.String("only", "", "regular expression of tables: same, killed, once")
	what := flags.String("what", "", `regular expression of formats and places, such as "rec from disk|tar from S3"`)
	flags.IntVar(&c.kills, "kills", 3, "how many processes of each job are killed")
	flags.BoolVar(&c.show, "v", false, "show what launch says")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if c.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only %q: %w", *only, err)
	}
	if c.what, err = regexp.Compile(*what); err != nil {
		return fmt.Errorf("-what %q: %w", *what, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return run(ctx, c, os.Stdout)
}
