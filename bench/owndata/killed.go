package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/testing/phototrain"
)

// stoppedCode is launch's exit code of a job that was stopped with a checkpoint.
const stoppedCode = 85

// steps is how many steps two workers take in an epoch.
func (s *shower) steps() int { return (s.images + 2*batch - 1) / (2 * batch) }

// killed trains in jobs whose workers are killed.
func (s *shower) killed(ctx context.Context) error {
	t := tabwriter.NewWriter(s.out, 0, 4, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, "place\tformat\tkills\tsteps\tparameters\tMB sent\ttime")
	all := epochs * s.steps()
	want := ""
	for i, src := range append([]source{{s.places[0], formats[0]}}, s.sources()...) {
		var kills []kill

		// Nothing happens to the first job.
		if i > 0 {
			kills = s.killsOf(all)
		}
		set := s.settings(src, fmt.Sprint("killed-", i))
		set.Epochs, set.SaveSteps, set.Kills = epochs, max(1, all/8), kills
		begin, before := time.Now(), src.bytes()
		j, err := s.start(ctx, set, false, "-n", "2", "-s", "2", "--restarts", "9")
		if err != nil {
			return err
		}
		err = j.wait(ctx, 0)
		told, toldErr := j.summary()
		j.Close()
		if err := cmp.Or(err, toldErr); err != nil {
			return fmt.Errorf("%v: %w", src, err)
		}
		hash := told.ends[0].Hash
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%.1f\t%.1f s\n", src.place.name, src.format.name, told.kills, told.steps, hash, float64(src.bytes()-before)/1e6, time.Since(begin).Seconds())
		s.checkSent(src, src.bytes()-before)
		want = cmp.Or(want, hash)
		for _, e := range told.ends {
			if e.Hash != want {
				s.bad("%v: a worker of the job that was killed %d times ends with parameters %s, want %s", src, told.kills, e.Hash, want)
			}
		}
		if told.kills != len(kills) {
			s.bad("%v: %d workers were killed, want %d", src, told.kills, len(kills))
		}
	}
	return nil
}

// checkSent is for a job whose workers share a cache: whatever happened to them, they have fetched
// about as much as there is.
func (s *shower) checkSent(src source, sent int64) {
	if most := 2*s.largestFormat + 1<<20; sent > most {
		s.bad("%v: %d bytes were sent to a job with a cache, want at most %d", src, sent, most)
	}
}

// killsOf are those of a job, at different steps before one of them, of both workers in turn.
func (s *shower) killsOf(before int) (list []kill) {
	for i := range s.kills {
		list = append(list, kill{(i + 1) % 2, max(1, (i+1)*before/(s.kills+1))})
	}
	return list
}

// settings are those of a job on a source, in a folder of its own.
func (s *shower) settings(src source, name string) settings {
	set := settings{URL: src.address(), Size: s.size, Classes: s.classes, Dir: filepath.Join(s.root, name)}
	if src.sent != nil {
		set.Cache = filepath.Join(set.Dir, "cache")
	}
	return set
}

// once counts in jobs whose workers come, go and are killed.
func (s *shower) once(ctx context.Context) error {
	t := tabwriter.NewWriter(s.out, 0, 4, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, "place\tformat\tkills\tmost workers\tsteps\timages used\tlost\tdoubled\tMB sent\ttime")
	prints, err := phototrain.Prints(ctx, phototrain.Run{URL: s.places[0].url(formats[0]), Size: s.size})
	if err != nil {
		return err
	}
	for i, src := range s.sources() {
		all := (epochs + 1) * s.steps()
		set := s.settings(src, fmt.Sprint("once-", i))
		set.Epochs, set.Prints, set.SaveSteps, set.Pace = epochs+1, prints, max(1, all/8), 10*time.Millisecond
		// The window counts only for data that has blocks.
		set.Kills, set.Window = s.killsOf(all/2), i%3
		begin, before := time.Now(), src.bytes()
		told, err := s.countOnce(ctx, set, all)
		if err != nil {
			return fmt.Errorf("%v: %w", src, err)
		}
		end := told.ends[0]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f s\n", src.place.name, src.format.name, told.kills, told.most, told.steps, end.Total, end.Lost, end.Doubled,
			float64(src.bytes()-before)/1e6, time.Since(begin).Seconds())
		s.checkSent(src, src.bytes()-before)
		for _, e := range told.ends {
			if e.Lost+e.Doubled > 0 || e.Total != len(prints)*set.Epochs {
				s.bad("%v: %d images lost, %d doubled, %d used, want none and %d", src, e.Lost, e.Doubled, e.Total, len(prints)*set.Epochs)
			}
		}
		if told.kills != len(set.Kills) {
			s.bad("%v: %d workers were killed, want %d", src, told.kills, len(set.Kills))
		}
		if told.most < 4 {
			s.bad("%v: at most %d workers were there, want 4", src, told.most)
		}
	}
	return nil
}

// countOnce runs a job of two workers, to which a third one comes, and stops it with a checkpoint;
// four workers go on to the end.
func (s *shower) countOnce(ctx context.Context, set settings, all int) (summary, error) {
	stop := all * 6 / 10
	set.Slow = stop
	elastic := []string{"-s", "2", "--elastic-training-enabled", "--on-worker-loss", "shrink", "--backups", "1", "--rejoin", "100", "--restarts", "3"}
	j, err := s.start(ctx, set, false, append([]string{"-n", "2"}, elastic...)...)
	if err != nil {
		return summary{}, err
	}
	defer j.Close()
	if err := j.until(ctx, all/8, 1); err != nil {
		return summary{}, j.Explain(err)
	}
	if err := j.Ask(ctx, control.Request{Op: control.OpScale, Workers: 3}, &control.Done{}); err != nil {
		return summary{}, j.Explain(err)
	}
	if err := j.until(ctx, stop, 1); err != nil {
		return summary{}, j.Explain(err)
	}

	// SIGUSR1 stops the job as launch ctl stop does.
	if err := syscall.Kill(j.PID(), syscall.SIGUSR1); err != nil {
		return summary{}, err
	}
	if err := j.wait(ctx, stoppedCode); err != nil {
		return summary{}, err
	}
	set.Slow = 0
	next, err := s.start(ctx, set, true, append([]string{"-n", "4"}, elastic...)...)
	if err != nil {
		return summary{}, err
	}
	defer next.Close()
	if err := next.wait(ctx, 0); err != nil {
		return summary{}, err
	}
	return next.summary()
}
