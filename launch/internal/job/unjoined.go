package job

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/control"
)

const (
	// joinedWordTime is how long after a worker's end the scheduler's word that it had joined may come.
	joinedWordTime = 3 * time.Second
	// joinWarnTime is how long no worker may join until that is told.
	joinWarnTime = 15 * time.Second
)

// howToJoin tells those whose workers do not join what they may have missed.
const howToJoin = "workers join with kvstore.Create and a store of type dist; without it, and with --kvstore local, each trains by itself"

// watchJoining says after a while that no worker has joined, if that is so. A single worker needs no job.
func (w *watch) watchJoining() {
	if len(w.run.cfg.Workers) > 1 {
		w.after(joinWarnTime, func() {
			if w.stage == running && !w.formed() && !w.run.formed.anyWorker() {
				w.warnOnce(fmt.Sprintf("no worker has joined the job for %s; %s", joinWarnTime, howToJoin))
			}
		})
	}
}

// after calls f later, or when the job no longer changes.
func (w *watch) after(d time.Duration, f func()) {
	w.start(func(ctx context.Context) func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return f
	})
}

// warnOnce warns that workers do not join.
func (w *watch) warnOnce(text string) {
	if !w.warned {
		w.warned = true
		w.run.cfg.Logger.Warn(text)
	}
}

// endUnjoined ends a job that cannot become complete: workers have ended with code 0 and are not in it, and others wait for them. Where
// nobody has joined nobody waits.
func (w *watch) endUnjoined() {
	if w.stage > running || w.formed() {
		return
	}
	var ended []string
	for _, n := range w.run.nodes {
		if n.Role == roleWorker && n.ended && n.Exit.OK() && !w.run.formed.has(n.process) && time.Since(n.endedAt()) >= joinedWordTime {
			ended = append(ended, fmt.Sprintf("%s on %s", n.Name(), n.Host))
		}
	}
	switch {
	case len(ended) == 0:
	case w.run.formed.anyWorker():
		w.failure = &control.Failure{Code: control.NotJoined, Rank: -1, Waiting: ended}
		w.run.cfg.Logger.Error(w.failure.String() + "; stopping them")
		w.enter(stopWorkers)
	default:
		w.warnOnce(fmt.Sprintf("%s ended with exit 0 without joining the job; %s", strings.Join(ended, ", "), howToJoin))
	}
}
