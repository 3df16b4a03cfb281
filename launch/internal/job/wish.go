package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	// wishTime is how long a wish must last before it is carried out.
	wishTime = 3 * time.Second
	// wishPause is how long no worker may have come or gone before a wish is carried out: a new
	// number must have been measured.
	wishPause = 20 * time.Second
	// wishRetry is how often that is looked at.
	wishRetry = time.Second
	// wishLimit bounds the request.
	wishLimit = 30 * time.Second
)

// A wish is the number of workers that rank 0 wants the job to have. It is carried out once: an
// operator may choose another number, which stays until rank 0 wishes for a new one.
type wish struct {
	workers int
	reason  string
}

// wishes takes a wish of rank 0.
func (c *core) wishes(e control.Event) {
	if !c.set.AdaptWorkers || c.stage != running {
		return
	}
	c.wish = &wish{e.Workers, e.Reason}
	c.after(wishTime, wishDue{c.wish})
}

// wishDue carries a wish out, unless a newer one has come or the number was chosen meanwhile. At
// most one change is under way at a time.
type wishDue struct{ *wish }

func (d wishDue) run(c *core) {
	switch {
	case c.wish != d.wish || c.done || c.activeWorkers() == 0:
		return
	case c.changing() || !c.changed.IsZero() && c.now.Sub(c.changed) < wishPause:
		c.after(wishRetry, d)
		return
	}
	c.wish = nil
	have, room := 0, 0
	for _, h := range c.occupied() {
		have += c.countWorkers(h)
	}
	for _, p := range c.roster {
		switch {
		case p.withdrawn:
		case p.Slots == 0:
			room += max(d.workers, have)
		default:
			room += max(p.Slots, c.countWorkers(p.Host))
		}
	}
	wanted := max(min(d.workers, room, c.set.MaxWorkers), c.set.MinWorkers, 1)
	if wanted == have {
		return
	}
	text := fmt.Sprintf("rank 0 asks for %s instead of %d", control.ScaleText(d.workers, nil), have)
	if wanted != d.workers {
		text += fmt.Sprintf(", limited to %d", wanted)
	}
	if d.reason != "" {
		text += ": " + d.reason
	}
	c.info(text, joblog.Scale.With("action", control.Wish, "workers", wanted, "reason", d.reason))
	c.ask(control.Request{Op: control.OpScale, Workers: wanted}, wishLimit, wishRequest{})
}

// wishRequest is the goal of the request that a wish leads to.
type wishRequest struct{}

// changing reports whether workers are coming or leaving, or a number of workers is being carried
// out.
func (c *core) changing() bool {
	if s := c.scaling; s != nil && !s.reached && !s.short {
		return true
	}
	for _, goal := range c.asked {
		if _, ok := goal.(wishRequest); ok {
			return true
		}
	}
	return c.anyStarting() || slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Role == roleWorker && n.leaving && !n.ended })
}
