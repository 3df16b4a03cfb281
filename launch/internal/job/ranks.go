package job

import "github.com/paragon-train/paragon/internal/member/control"

// ranksRequest is the goal of a request for the workers' ranks.
type ranksRequest struct{}

// askRanks asks the scheduler which rank each worker has now: after a change others than the
// launcher's numbers. The lines of the workers' output carry them.
func (c *core) askRanks() {
	switch {
	case c.stage != running:
	case c.ranksAsked:
		c.ranksAgain = true
	default:
		c.ranksAsked = true
		c.ask(control.Request{Op: control.OpStatus}, 0, ranksRequest{})
	}
}

// ranksAnswered gives workers the ranks that the scheduler knows them by.
func (c *core) ranksAnswered(e answered) {
	c.ranksAsked = false
	if e.err == nil { // else the old names stay
		for _, x := range e.status.Nodes {
			n := c.find(x.Process)
			if n == nil || n.Role != roleWorker || !n.member || n.ended || x.Rank < 0 || x.State == control.NodeRemoved || n.Rank == int(x.Rank) {
				continue
			}
			n.Rank = int(x.Rank)
			c.do(rename{n.process, n.source()})
		}
	}
	if c.ranksAgain {
		c.ranksAgain = false
		c.askRanks()
	}
}
