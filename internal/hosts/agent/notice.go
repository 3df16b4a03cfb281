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
	// Code is one of the codes below. A host does not leave for another one, which Known does not
	// know.
	Code string

	// Text is for people: what was said, and by whom.
	Text string

	// Left is the time until the host's processes are ended; 0: it is not known.
	Left time.Duration

	// Withdrawn takes the notices before it back: the host stays.
	Withdrawn bool `json:",omitempty"`
}

// The codes of a Notice.
const (
	// NoticeTerminated says that the agent was told to end, as on a shutdown of its host or when
	// its pod is evicted.
	NoticeTerminated = "terminated"

	// NoticePreempted says that the provider takes a spot machine back.
	NoticePreempted = "preempted"

	// NoticeMaintenance says that the provider restarts the machine, or moves it to other hardware.
	NoticeMaintenance = "maintenance"

	// NoticeAtRisk says that the provider may take the machine back before long.
	NoticeAtRisk = "risk"
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
	maxNoticeText = 500 // bytes

	// maxNoticeLeft is more than any provider is known to give.
	maxNoticeLeft = 24 * time.Hour

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
