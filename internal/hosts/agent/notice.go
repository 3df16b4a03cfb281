package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// A Notice says that the agent's host is about to be taken away, or may be.
type Notice struct {
	Code string        // one of the codes below; no one leaves for another one, which Known does not know
	Text string        // what was said, and by whom, for people
	Left time.Duration // until the host's processes are ended; 0: not known
	// Withdrawn takes the notices before it back: the host stays.
	Withdrawn bool `json:",omitempty"`
}

// The codes of a Notice.
const (
	NoticeTerminated  = "terminated"  // the agent was told to end, as on a shutdown of its host or when its pod is evicted
	NoticePreempted   = "preempted"   // the provider takes the machine back: a spot machine
	NoticeMaintenance = "maintenance" // the provider restarts the machine, or moves it to other hardware
	NoticeAtRisk      = "risk"        // the provider may take the machine back before long
)

// Known reports whether the notice has one of the codes.
func (n *Notice) Known() bool {
	switch n.Code {
	case NoticeTerminated, NoticePreempted, NoticeMaintenance, NoticeAtRisk:
		return true
	}
	return false
}

const (
	maxNoticeText = 500            // bytes
	maxNoticeLeft = 24 * time.Hour // more is not known of any provider

	// noteTime is how long an agent that was told to end waits for the launcher to take its
	// notice, before it tells its processes itself.
	noteTime = 500 * time.Millisecond
)

// decodeNotice reads a notice. What is out of its range is cut: an agent that says too much still
// has a host that goes away.
func decodeNotice(body []byte) (Notice, error) {
	var n Notice
	if err := json.Unmarshal(body, &n); err != nil {
		return Notice{}, fmt.Errorf("launch: read a notice of the agent: %w", err)
	}
	n.Code, n.Text = clip(n.Code, 64), clip(n.Text, maxNoticeText)
	n.Left = min(max(n.Left, 0), maxNoticeLeft)
	return n, nil
}

// clip is one printable line of at most so many bytes.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Leaving has the newest notice of the agent. Whoever calls it sees to the processes of a host that
// is taken away: an agent that was told to end then keeps them until they have ended or its time is
// over.
func (c *Client) Leaving() <-chan Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listened = true; len(c.notices) > 0 {
		c.send(kindNoted, 0, nil) // an agent that is gone needs no answer
	}
	return c.notices
}

// notice takes a notice of the agent in place of the one before.
func (c *Client) notice(body []byte) error {
	n, err := decodeNotice(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.notices:
	default:
	}
	c.notices <- n // it has room for one, and only this goroutine fills it
	if c.listened {
		c.send(kindNoted, 0, nil)
	}
	return nil
}
