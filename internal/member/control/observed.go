package control

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Observed is what the launcher sees of a job: a full snapshot. A newer one replaces an older one,
// so one that is lost, or comes twice, does no harm.
type Observed struct {
	// Number goes up with each snapshot of a launcher. An older one is passed over.
	Number uint64 `json:"number"`
	// Revision is that of the wanted state which the launcher has taken.
	Revision uint64 `json:"revision"`
	// Last is the highest number that the launcher has given a process before its first
	// snapshot.
	Last uint32 `json:"last,omitempty"`
	// Processes are servers and workers by number: those that the wanted state names, and those
	// that live.
	Processes []ObservedProcess `json:"processes,omitempty"`
	// Hosts are those of the hosts file, those on which servers may run, and those that are
	// connected.
	Hosts []ObservedHost `json:"hosts,omitempty"`
}

// The states of a process.
const (
	// StateWaiting: the process is not started, since it is not time yet, or its host is not ready.
	StateWaiting = "waiting"
	// StateRunning: the process is being started, or runs.
	StateRunning = "running"
	// StateEnded: the process has ended, or could not be started.
	StateEnded = "ended"
)

// ObservedProcess is a server or worker as the launcher sees it.
type ObservedProcess struct {
	Process uint32 `json:"process"`
	Role    string `json:"role"`
	Rank    int    `json:"rank"`
	Number  int    `json:"number"`
	Host    string `json:"host"`
	State   string `json:"state"`
	// Cause is how it ended.
	Cause Cause `json:"cause,omitzero"`
	// Seconds is for how long it has run.
	Seconds float64 `json:"seconds,omitempty"`
	// Outside says that it ended cleanly after a SIGTERM from outside the launcher.
	Outside bool `json:"outside,omitempty"`
}

// OK reports whether the process ended with code 0.
func (p *ObservedProcess) OK() bool {
	return p.State == StateEnded && p.Cause.Kind == CauseExit && p.Cause.Exit == 0
}

// ObservedHost is a host as the launcher sees it.
type ObservedHost struct {
	Host string `json:"host"`
	// Slots is that of the hosts file; 0: any number of workers.
	Slots int `json:"slots,omitempty"`
	GPUs  int `json:"gpus,omitempty"` // as in Request
	CPUs  int `json:"cpus,omitempty"`
	// Listed says that the host is in the hosts file: workers may run there.
	Listed bool `json:"listed,omitempty"`
	// Servers says that servers may run there.
	Servers bool `json:"servers,omitempty"`
	// First is how many servers the job began with there.
	First int `json:"first,omitempty"`
	// Connection is another number for each connection to the host; 0: there is none.
	Connection int `json:"connection,omitempty"`
	// Runs names what else of the job runs there and cannot move: the scheduler, or launch.
	Runs string `json:"runs,omitempty"`
	// Notice says that the host is being taken away.
	Notice *HostNotice `json:"notice,omitempty"`
}

// A HostNotice says that a host is being taken away.
type HostNotice struct {
	LeftMillis int64  `json:"left_ms"`        // until its processes are ended
	Text       string `json:"text,omitempty"` // for people
	// CheckpointMillis is until when a checkpoint of the job must be complete.
	CheckpointMillis int64 `json:"checkpoint_ms"`
}

// Left is the time until the host's processes are ended.
func (n *HostNotice) Left() time.Duration { return time.Duration(n.LeftMillis) * time.Millisecond }

// Checkpoint is the time until when a checkpoint of the job must be complete.
func (n *HostNotice) Checkpoint() time.Duration {
	return time.Duration(n.CheckpointMillis) * time.Millisecond
}

// clipped returns a snapshot whose texts have no more bytes than they may.
func (o *Observed) clipped() *Observed {
	c := *o
	c.Processes, c.Hosts = slices.Clone(c.Processes), slices.Clone(c.Hosts)
	for i := range c.Processes {
		c.Processes[i].Cause.Text = clip(c.Processes[i].Cause.Text, maxObservedText)
	}
	for i, h := range c.Hosts {
		if h.Notice != nil {
			n := *h.Notice
			n.Text = clip(n.Text, maxObservedText)
			c.Hosts[i].Notice = &n
		}
	}
	return &c
}

// maxObservedText bounds a text of a snapshot, in bytes.
const maxObservedText = 1 << 10

func (o *Observed) check() error {
	if o == nil {
		return errors.New("op report: want what is observed")
	}
	last := uint32(0)
	for i := range o.Processes {
		p := &o.Processes[i]
		switch {
		case p.Process <= last:
			return fmt.Errorf("op report: process %d comes after %d", p.Process, last)
		case p.Role != Worker && p.Role != Server:
			return fmt.Errorf("op report: process %d: role %q: want worker or server", p.Process, p.Role)
		case p.Rank < -1 || p.Rank > maxRank || p.Number < 0 || p.Number > 1<<30:
			return fmt.Errorf("op report: process %d: rank %d, number %d: one is out of range", p.Process, p.Rank, p.Number)
		case p.State != StateWaiting && p.State != StateRunning && p.State != StateEnded:
			return fmt.Errorf("op report: process %d: state %q: want %s, %s or %s", p.Process, p.State, StateWaiting, StateRunning, StateEnded)
		case (p.State == StateEnded) != (p.Cause.Kind != ""):
			return fmt.Errorf("op report: process %d: state %s and cause %q contradict each other", p.Process, p.State, p.Cause.Kind)
		case !(p.Seconds >= 0 && p.Seconds <= maxSeconds):
			return fmt.Errorf("op report: process %d: %g seconds, want 0 to %d", p.Process, p.Seconds, maxSeconds)
		}
		if err := p.Cause.check("report"); err != nil {
			return err
		}
		last = p.Process
	}
	for _, h := range o.Hosts {
		switch n := h.Notice; {
		case h.Host == "" || !validHost(h.Host):
			return fmt.Errorf("op report: host %q: want a name of 1 to %d bytes without spaces and slashes", h.Host, MaxHostName)
		case h.Slots < 0 || h.Slots > MaxSlots || h.GPUs < -1 || h.GPUs > MaxGPUs || h.CPUs < 0 || h.CPUs > MaxCPUs || h.First < 0 || h.First > maxRank || h.Connection < 0:
			return fmt.Errorf("op report: host %s: slots %d, gpus %d, cpus %d, first %d, connection %d: one is out of range", h.Host, h.Slots, h.GPUs, h.CPUs, h.First, h.Connection)
		case n != nil && (n.LeftMillis < 0 || n.LeftMillis > maxNoticeMillis || n.CheckpointMillis < 0 || n.CheckpointMillis > maxNoticeMillis):
			return fmt.Errorf("op report: host %s: notice: left_ms %d, checkpoint_ms %d: want 0 to %d", h.Host, n.LeftMillis, n.CheckpointMillis, maxNoticeMillis)
		}
	}
	return nil
}

// maxNoticeMillis bounds the time that a notice gives: 30 days.
const maxNoticeMillis = 30 * 24 * 3600_000
