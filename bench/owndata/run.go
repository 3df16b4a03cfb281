package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/testing/phototrain"
	"github.com/paragon-train/paragon/kvstore"
)

// What is trained in each table.
const (
	// batch is that of a worker.
	batch  = 20
	epochs = 2
)

// A shower prints tables, and keeps what was wrong.
type shower struct {
	config
	*set
	out   io.Writer
	wrong []error
}

func (s *shower) bad(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	s.wrong = append(s.wrong, err)
	fmt.Fprintln(s.out, "WRONG:", err)
}

// run prints the tables that are asked for.
func run(ctx context.Context, c config, out io.Writer) error {
	made, err := makeSet(c)
	if err != nil {
		return err
	}
	defer made.close()
	s := &shower{config: c, set: made, out: out}
	fmt.Fprintf(out, "%d images of %d classes in %s; %d CPUs, %s/%s, %s\n", c.images, c.classes, s.root, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	for _, t := range []struct {
		name string
		show func(ctx context.Context) error
	}{{"same", s.same}, {"killed", s.killed}, {"once", s.once}} {
		if !c.only.MatchString(t.name) {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", t.name)
		if err := t.show(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return errors.Join(s.wrong...)
}

// same trains on each format from each place.
func (s *shower) same(ctx context.Context) error {
	t := tabwriter.NewWriter(s.out, 0, 4, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, "place\tformat\treaders\tcache\tparameters\tloss\timages/s\twaits\tMB sent")
	want := ""
	for _, src := range s.sources() {
		// cold counts the bytes that were sent to an empty cache.
		dir, cold := filepath.Join(s.root, "cache-"+src.format.name), int64(0)
		for _, how := range []struct {
			cache   string
			readers int
		}{{"none", 1}, {"none", 8}, {"cold", 1}, {"warm", 8}, {"cold", 8}, {"warm", 1}} {
			r := phototrain.Run{URL: src.address(), Readers: how.readers}
			if how.cache != "none" {
				// A disk needs no cache.
				if src.sent == nil {
					continue
				}
				r.Open = data.OpenOptions{CacheDir: dir}
			}
			if how.cache == "cold" {
				if err := os.RemoveAll(dir); err != nil {
					return err
				}
			}
			before := src.bytes()
			result, err := s.train(ctx, r)
			if err != nil {
				return fmt.Errorf("%v, %d readers, cache %s: %w", src, how.readers, how.cache, err)
			}
			sent := src.bytes() - before
			if how.cache == "cold" {
				cold = sent
			}
			if how.cache == "warm" && sent > cold/10 {
				s.bad("%v with %d readers: %d bytes were sent to a full cache, and %d to an empty one", src, how.readers, sent, cold)
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%.4f\t%.0f\t%.1f %%\t%.1f\n", src.place.name, src.format.name, how.readers, how.cache, result.Hash, result.Loss,
				result.Images, 100*result.Waits, float64(sent)/1e6)
			if want = cmp.Or(want, result.Hash); result.Hash != want {
				s.bad("%v with %d readers and cache %s ends with parameters %s, want %s", src, how.readers, how.cache, result.Hash, want)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// train is a run in this process.
func (s *shower) train(ctx context.Context, r phototrain.Run) (result phototrain.Result, err error) {
	kv, err := kvstore.Create(ctx, "local")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, kv.Close()) }()
	r.Size, r.Classes, r.Batch, r.Epochs, r.Store = s.size, s.classes, 2*batch, epochs, kv
	return phototrain.Train(ctx, r)
}
