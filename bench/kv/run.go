package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/paragon-train/paragon/bench/internal/machine"
)

// A bench is one run of this program: turns of all jobs, one job after the other, so that what is compared shares the machine's good and
// bad times. It ends within its budget, whatever peers do.
type bench struct {
	set      settings
	r        *report
	progress io.Writer
	begun    time.Time
	peers    error // failures of peers, which do not end the run
}

func run(ctx context.Context, set settings, out, progress io.Writer) error {
	b := &bench{set: set, r: newReport(out), progress: progress, begun: time.Now()}
	machine.Here().WriteHead(b.r.w, "bench/kv")
	longest := time.Duration(0)
	for i := range set.count {
		begun := time.Now()
		if i > 0 && b.left() < longest {
			fmt.Fprintf(progress, "kv: %d of %d turns: another would not fit in -budget %v\n", i, set.count, set.budget)
			break
		}
		if err := b.turn(ctx, i); err != nil {
			return err
		}
		took := time.Since(begun)
		longest = max(longest, took)
		if i == 0 && set.count > 1 {
			fmt.Fprintf(progress, "kv: a turn takes %v, all %d of them about %v\n", took.Round(time.Second), set.count, (took * time.Duration(set.count)).Round(time.Second))
		}
	}
	b.r.end(set.transports)
	if set.save != "" {
		if err := machine.Here().Save(set.save, "kv", b.r.saved.Bytes()); err != nil {
			return fmt.Errorf("-save: %w", err)
		}
	}
	return b.peers
}

// left is the time until the budget is spent.
func (b *bench) left() time.Duration {
	if b.set.budget == 0 {
		return 1 << 62
	}
	return b.set.budget - time.Since(b.begun)
}

func (b *bench) turn(ctx context.Context, i int) error {
	for _, sz := range b.set.jobs {
		for part, works := range b.set.jobsOf() {
			for _, j := range b.set.ways() {
				j.size, j.scale = sz, b.set.scale
				if w, err := findWork(works[0]); err == nil && w.table != nil && j.peer != nil {
					continue // no peer plays these
				}
				if b.set.profile != "" {
					j.profile = path.Join(b.set.profile, fmt.Sprintf("%s-%dx%d-%d-%d", j.transport, sz.workers, sz.servers, i, part))
				}
				if err := b.job(ctx, j, works); err != nil {
					return fmt.Errorf("%d workers, %d servers over %s: %w", sz.workers, sz.servers, j.transport, err)
				}
			}
		}
	}
	return nil
}

// job plays works in as many jobs as it takes: one that is too slow ends its job, is not played again, and the works behind it get a new one.
func (b *bench) job(ctx context.Context, j job, works []string) error {
	for _, name := range works {
		if b.r.row(&j, name).late == "" {
			j.works = append(j.works, name)
		}
	}
	for len(j.works) > 0 {
		left := b.left()
		if left <= 0 {
			for _, name := range j.works {
				if m := b.r.row(&j, name); len(m.turns) == 0 {
					b.r.tooLate(m, fmt.Sprintf("not measured: -budget %v is spent", b.set.budget))
				}
			}
			return nil
		}
		limit := min(left, time.Duration(max(1, b.set.scale)*float64(b.set.limit)))
		done, err := j.run(ctx, limit, b.r)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		switch {
		case errors.Is(err, errLate) && done == len(j.works):
			fmt.Fprintf(b.progress, "kv: processes of %s did not end within %v of their last work\n", j.transport, limit.Round(time.Second))
			return nil
		case done == len(j.works) && j.peer == nil:
			return err
		case done == len(j.works):
			b.peers = errors.Join(b.peers, fmt.Errorf("%s, at its end: %w", j.transport, err))
			return nil
		case errors.Is(err, errLate):
			b.r.tooLate(b.r.row(&j, j.works[done]), fmt.Sprintf("took longer than %v", limit.Round(time.Second)))
		case j.peer != nil:
			b.r.tooLate(b.r.row(&j, j.works[done]), "failed")
			b.peers = errors.Join(b.peers, fmt.Errorf("%s, work %s, %d workers and %d servers: %w", j.transport, j.works[done], j.workers, j.servers, err))
		default:
			return fmt.Errorf("work %s: %w", j.works[done], err)
		}
		j.works = j.works[done+1:]
	}
	return nil
}

// floors are peers that move the bytes and do nothing else, played by this program.
func floors() ([]peer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []peer{{floorTCP, []string{exe, floorCommand, floorTCP}}, {floorMemory, []string{exe, floorCommand, floorMemory}}}, nil
}
