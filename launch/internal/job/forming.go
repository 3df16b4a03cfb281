package job

import "fmt"

// attempts is how often a process that ended before the job was complete is started again.
func (c *core) attempts(n *Node) int {
	switch {
	case n.Role == roleServer && c.set.Backups > 0:
		return maxRestarts
	case c.set.OnWorkerLoss == LossFail:
		return 0
	}
	return c.set.Rejoin
}

// beforeComplete says of a process that failed in a job which survives losses why it did not
// survive this one: not all had joined.
func (c *core) beforeComplete(n *Node) string {
	switch {
	case n.Role == roleScheduler || c.formed || !c.set.Changes:
		return ""
	case n.attempt > 0:
		return fmt.Sprintf(", before the job was complete, %d times in a row", n.attempt+1)
	case c.set.OnWorkerLoss != LossFail && c.set.Rejoin == 0 && !n.asked():
		return ", before the job was complete; with --rejoin 1 or more it is started again"
	}
	return ", before the job was complete"
}
