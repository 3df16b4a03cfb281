package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/hosts"
)

// errUnwanted ends the work for a server that is no longer wanted.
var errUnwanted = errors.New("it is no longer wanted")

// serverEvent carries out what the scheduler has decided about a server that comes or goes as asked.
func (w *watch) serverEvent(e control.Event) {
	name := fmt.Sprintf("server %d", e.Rank)
	if e.Host != "" {
		name += " on " + e.Host
	}
	log := w.run.cfg.Logger
	switch e.Action {
	case control.ServerQueued:
		if w.stage == running {
			w.bringServer(e)
		}
	case control.ServerAdded:
		delete(w.asked, int(e.Rank))
		log.Info(name + " joined the job; shards move to it")
	case control.ServerRemoved:
		log.Info(name + " was removed from the job; its shards are at other servers")
		for _, n := range w.run.nodes {
			if n.Role == roleServer && n.Rank == int(e.Rank) && n.ended && n.Exit.OK() && n.fate.code == "" {
				n.fate = fate{code: control.FateRemoved} // it ended before this news came
			}
		}
		w.sendAway(int(e.Rank), fate{control.FateRemoved, "had to be stopped"})
	case control.ServerFailed:
		log.Error(fmt.Sprintf("%s could not be added: %s; the job goes on without it", name, e.Reason))
		w.sendAway(int(e.Rank), fate{control.FateRefused, "could not be added: " + e.Reason})
	}
}

// sendAway ends the server of a rank: one that has counted ends by itself.
func (w *watch) sendAway(rank int, why fate) {
	if cancel := w.bringing[rank]; cancel != nil {
		cancel(errUnwanted)
	}
	delete(w.asked, rank)
	for _, n := range w.run.nodes {
		if n.Role == roleServer && n.Rank == rank && !n.ended {
			n.leaving = true
			w.turnOut(n, why, leaveTime)
		}
	}
}

// serverHost chooses where one more server runs: of the hosts that the job began with servers on, the one with the fewest.
func (w *watch) serverHost() (best hosts.Host) {
	least := -1
	for _, h := range w.run.cfg.Servers {
		count := 0
		for _, n := range w.run.nodes {
			if n.Role == roleServer && !n.ended && !n.leaving && n.host.Same(h) {
				count++
			}
		}
		for _, n := range w.asked {
			if n.host.Same(h) && !slices.Contains(w.run.nodes, n) {
				count++
			}
		}
		if least < 0 || count < least {
			best, least = h, count
		}
	}
	return best
}

// bringServer starts the server that the scheduler wants.
func (w *watch) bringServer(e control.Event) {
	h, err := w.serverHost(), error(nil)
	if e.Host != "" {
		h, err = hosts.ParseHost(e.Host)
	}
	if err != nil {
		w.serverFailed(int(e.Rank), err)
		return
	}
	limit := w.run.cfg.Elastic.JoinTimeout
	ctx, stop := context.WithTimeoutCause(w.working, limit, fmt.Errorf("not done after %s (--join-timeout)", limit))
	ctx, cancel := context.WithCancelCause(ctx)
	w.bringing[int(e.Rank)] = cancel
	end := func(err error) {
		if errors.Is(context.Cause(ctx), errUnwanted) || w.working.Err() != nil {
			err = nil
		}
		cancel(nil)
		stop()
		delete(w.bringing, int(e.Rank))
		if err != nil {
			w.serverFailed(int(e.Rank), err)
		}
	}
	key := w.run.key(h)
	old := w.run.machines[key]
	n := w.run.newNode(roleServer, int(e.Rank), h)
	n.joining = true
	w.asked[int(e.Rank)] = n
	w.start(func(context.Context) func() {
		m, fresh, err := w.run.reach(ctx, h, old)
		return func() {
			if fresh && m != nil {
				m = w.adopt(key, m)
			}
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				end(err)
				return
			}
			w.run.cfg.Logger.Info(fmt.Sprintf("starting server %d on %s", n.Rank, n.Host))
			n.machine = m
			w.launch(ctx, n, nil, func(err error) {
				if err == nil && ctx.Err() != nil && w.stage == running {
					n.leaving = true
					w.turnOut(n, fate{code: control.FateUnneeded}, 0)
				}
				end(err)
			})
		}
	})
}

// serverFailed tells the scheduler that a server could not be added.
func (w *watch) serverFailed(rank int, err error) {
	text := strings.TrimPrefix(err.Error(), "launch: ")
	w.tell(control.Request{Op: control.OpServerFailed, Rank: rank, Reason: text}, func(err error) {
		if err != nil && w.stage == running {
			w.run.cfg.Logger.Warn(fmt.Sprintf("server %d: %s (%v)", rank, text, err))
		}
	})
}
