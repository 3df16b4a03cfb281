package job

import (
	"cmp"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// noticeTime is assumed where a notice does not say how much time is left: less than any provider
// gives.
const noticeTime = 20 * time.Second

// noticed takes a notice of an agent. The scheduler decides what leaves the host.
func (c *core) noticed(e noticed) {
	m := c.byID[e.machine]
	if m == nil || m.closing || m.lost || c.stage > running {
		return
	}
	h := hosts.Local
	if m.key != "" {
		h, _ = hosts.ParseHost(m.key) // it is the String of one
	}
	known, said := c.notices[m.id], ""
	if e.Text != "" {
		said = ": " + e.Text
	}
	switch {
	case e.Withdrawn:
		delete(c.notices, m.id)
		c.report.due = c.report.due || known != nil
	case !e.Known():
		c.warn(fmt.Sprintf("host %s has a notice of a kind that is not known here (%q), and nothing is done about it%s", h, e.Code, said),
			joblog.HostNotice.With("node_host", h.String(), "notice", e.Code, "reason", e.Text))
	case e.Code == agent.NoticeAtRisk:
		if known == nil {
			c.warn(fmt.Sprintf("host %s may be taken away before long%s; the job goes on there until then", h, said),
				joblog.HostNotice.With("node_host", h.String(), "notice", e.Code, "reason", e.Text))
		}
	default:
		left := cmp.Or(e.Left, noticeTime)
		by := c.now.Add(left)
		if known != nil && !by.Before(known.by) {
			return
		}
		if known == nil {
			c.warn(fmt.Sprintf("host %s is being taken away%s; %s left", h, said, left.Round(time.Second)),
				joblog.HostNotice.With("node_host", h.String(), "notice", e.Code, "reason", e.Text, "left", left))
		}
		n := &hostNotice{by: by, checkpointBy: c.now.Add(max(left-c.set.StopTimeout-killTime, left/2)), text: e.Text}
		c.notices[m.id], c.report.due = n, true
		if s := &c.checkpoint; s.requested() && n.checkpointBy.Before(s.by) {
			c.limitCheckpoint(max(n.checkpointBy.Sub(c.now), 0))
		}
		c.follow()
	}
}

// noticeOf reports whether a host is being taken away.
func (c *core) departing(h hosts.Host) bool {
	m := c.machines[c.key(h)]
	return m != nil && c.notices[m.id] != nil
}
