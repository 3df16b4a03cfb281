// Command widedeep trains a wide and deep model on rows of clicks. Its embedding tables live on the
// servers, and each step pulls and pushes only the rows that its batch touches. Their vocabulary is
// open: a value's 63-bit hash names its row, which is made when it is first trained on; --buckets N
// hashes the values into tables of N rows instead, where some share one.
//
//	widedeep --data data/criteo_train_head.txt.gz
//	launch -n 2 -s 2 -- widedeep --data data/criteo_train_head.txt.gz
//	launch -n 8 -s 4 -- widedeep --data s3://clicks/day=1 --batch 2048
//
// The rows are read from where they lie, in blocks, so they need not fit in memory: text as Criteo
// publishes it, torchrec's arrays, or Parquet, in a file or a folder of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/paragon-train/paragon/data"
	// Package formats reads Parquet and zstd.
	_ "github.com/paragon-train/paragon/data/formats"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/version"
)

func main() {
	var s settings
	flag.StringVar(&s.path, "data", "", "path or URL of rows of Criteo's sets, a file or a folder: text, compressed or not, torchrec's .npy files, or Parquet")
	cache := flag.Int64("cache", 256, "MB of rows that are kept decoded in memory")
	flag.StringVar(&s.rows.DiskCache, "cache-dir", "", "folder that keeps what was read over a network for the next epoch and the next run")
	flag.IntVar(&s.batch, "batch", 128, "rows per step")
	flag.IntVar(&s.epochs, "epochs", 1, "passes over the data; after one pass the model overfits a small file")
	flag.StringVar(&s.out, "out", "out", "folder for TensorBoard's files, under tensorboard")
	flag.Int64Var(&s.rows.Buckets, "buckets", 0, "rows of the table that values are hashed into; 0: each value has its own row, made on first use")
	version.AddFlag(flag.CommandLine)
	kvstore.ParseFlags()
	s.rows.CacheBytes = *cache << 20
	var err error
	if flag.NArg() > 0 {
		err = kvstore.Final(fmt.Errorf("got %q after the flags, want flags only; see --help", flag.Args()))
	} else {
		_, err = train(context.Background(), s)
	}
	switch {
	case errors.Is(err, kvstore.ErrRemoved):
		fmt.Fprintln(os.Stderr, "widedeep: removed from the job on request; the other workers continue")
	case err != nil:
		fmt.Fprintln(os.Stderr, "widedeep:", err)
		os.Exit(1)
	}
}

// settings are what the flags ask for.
type settings struct {
	// path is the file, the folder or the URL of the rows; rows says how they are read, and Buckets
	// of it how many rows the tables have.
	path string
	rows data.CriteoConfig

	// batch is the number of rows of a step, and epochs that of passes over the data.
	batch, epochs int

	// out is the folder of TensorBoard's files.
	out string
}

// check names a flag that cannot be.
func (s *settings) check() error {
	switch {
	case s.path == "":
		return errors.New("--data is empty, want the path or URL of Criteo's rows")
	case s.batch < 1:
		return fmt.Errorf("--batch is %d, want at least 1", s.batch)
	case s.epochs < 1:
		return fmt.Errorf("--epochs is %d, want at least 1", s.epochs)
	case s.rows.CacheBytes < 1<<20:
		return fmt.Errorf("--cache is %d, want at least 1", s.rows.CacheBytes>>20)
	case s.rows.Buckets < 0:
		return fmt.Errorf("--buckets is %d, want at least 1, or 0 for a row for each value", s.rows.Buckets)
	}
	return nil
}
