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
	"github.com/paragon-train/paragon/bench/internal/processes"
)

// A bench is one run of this program: turns of all jobs, one job after the other, so that what is
// compared shares the machine's good and bad times. It ends within its budget, whatever peers do.
type bench struct {
	set      settings
	r        *report
	progress io.Writer
	begun    time.Time
	// failed is the failure of our own works. A peer's is a row that says so.
	failed error
}

// errInterrupted is the end of a run by a signal.
var errInterrupted = errors.New("interrupted")

// run makes turns until there are enough or the budget would not hold another as long as the
// longest.
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
		if b.turn(ctx, i) != nil {
			break
		}
		took := time.Since(begun)
		longest = max(longest, took)
		if i == 0 && set.count > 1 {
			fmt.Fprintf(progress, "kv: a turn takes %v, all %d of them about %v\n", took.Round(time.Second), set.count, (took * time.Duration(set.count)).Round(time.Second))
		}
	}
	b.r.end(set.transports)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if set.save != "" {
		if err := machine.Here().Save(set.save, "kv", b.r.saved.Bytes()); err != nil {
			return fmt.Errorf("-save: %w", err)
		}
	}
	return b.failed
}

// left is the time until the budget is spent.
func (b *bench) left() time.Duration {
	if b.set.budget == 0 {
		return 1 << 62
	}
	return b.set.budget - time.Since(b.begun)
}

// turn runs each job once, this program and its peers one after the other. An error is that of the
// run; one of a job is a row.
func (b *bench) turn(ctx context.Context, i int) error {
	for _, sz := range b.set.jobs {
		for part, works := range b.set.jobsOf() {
			for _, j := range b.set.turns(sz) {
				j.size, j.scale = sz, b.set.scale
				if w, err := findWork(works[0]); err == nil && w.optimizer() != "" && j.peer != nil {
					// No peer has an optimizer.
					continue
				}
				if b.set.profile != "" {
					j.profile = path.Join(b.set.profile, fmt.Sprintf("%s-%dx%d-%d-%d", j.transport, sz.workers, sz.servers, i, part))
				}
				if err := b.job(ctx, j, works); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// maxLost is how many works one after the other may fail or be too slow before a peer is asked for
// no more.
const maxLost = 2

// job plays works in as many jobs as it takes: one that fails or is too slow ends its job, is not
// played again, and the works behind it get a new one. Its error is that of ctx.
func (b *bench) job(ctx context.Context, j job, works []string) error {
	for _, name := range works {
		if b.r.row(&j, name).late == "" {
			j.works = append(j.works, name)
		}
	}
	for lost := 0; len(j.works) > 0; {
		left := b.left()
		if left <= 0 {
			b.leaveOut(&j, fmt.Sprintf("-budget %v is spent", b.set.budget))
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
		j.works = j.works[done:]
		if errors.Is(err, errLate) && b.left() <= 0 {
			continue
		}
		why := fmt.Sprintf("took longer than %v", limit.Round(time.Second/10))
		if !errors.Is(err, errLate) {
			why = "failed: " + processes.Reason(err)
			err = fmt.Errorf("%s, %d × %d, work %s: %w", j.transport, j.workers, j.servers, append(j.works, "the end")[0], err)
			if j.peer == nil {
				b.failed = errors.Join(b.failed, err)
			} else {
				fmt.Fprintln(b.progress, "kv:", err)
			}
		}
		if len(j.works) == 0 {
			fmt.Fprintf(b.progress, "kv: %s, behind its last work: %s\n", j.transport, why)
			return nil
		}
		b.r.tooLate(b.r.row(&j, j.works[0]), why)
		j.works = j.works[1:]
		if done > 0 {
			lost = 0
		}
		if lost++; lost == maxLost && j.peer != nil {
			b.leaveOut(&j, fmt.Sprintf("the %d works before it gave nothing", maxLost))
			return nil
		}
	}
	return nil
}

// leaveOut reports each work of a job that has no measurement yet as not measured, with the reason.
func (b *bench) leaveOut(j *job, why string) {
	for _, name := range j.works {
		if m := b.r.row(j, name); len(m.turns) == 0 {
			b.r.tooLate(m, "not measured: "+why)
		}
	}
}

// floors are peers that move the bytes and do nothing else, played by this program.
func floors() ([]peer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []peer{{floorTCP, []string{exe, floorCommand, floorTCP}}, {floorMemory, []string{exe, floorCommand, floorMemory}}}, nil
}
