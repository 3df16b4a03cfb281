package ctl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/metrics"
)

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
