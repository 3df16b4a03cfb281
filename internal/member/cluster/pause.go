package cluster

import "time"

// pause waits before the next attempt, longer each time.
func (n *Node) pause(d *time.Duration) {
	t := time.NewTimer(*d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.life.ctx.Done():
	}
	*d = min(2**d, longestPause)
}
