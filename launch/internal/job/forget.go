package job

import (
	"fmt"
	"slices"
)

// maxEnded is how many processes that came and went are remembered one by one, for the table at the
// end: the newest.
const maxEnded = 1000

// maxLast bounds the last line that is kept of a process, in bytes.
const maxLast = 8 << 10

// forget forgets the oldest processes that have ended while the job went on, and hosts of which
// nothing is left.
func (c *core) forget() {
	over := -maxEnded
	for _, n := range c.nodes {
		if n.ended {
			over++
		}
	}
	if over <= 0 {
		return
	}
	c.nodes = slices.DeleteFunc(c.nodes, func(n *Node) bool {
		if over <= 0 || !n.ended || n.fate.code == "" || n.Role == roleScheduler || n == c.first || n == c.culprit || n == c.lost {
			return false
		}
		over--
		c.forgotten++
		return true
	})
	used := make(map[string]bool)
	for _, n := range c.nodes {
		used[n.host.String()] = true
	}
	for host, member := range c.members {
		if !member && !used[host] {
			delete(c.members, host)
		}
	}
}

// forgottenText says of how many processes the table has no row.
func (c *core) forgottenText() string {
	if c.forgotten == 0 {
		return ""
	}
	return fmt.Sprintf("%d earlier processes that ended are not shown\n", c.forgotten)
}
