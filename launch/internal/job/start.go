package job

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// startup is how far the start of a job has come: all machines are connected, then the scheduler is
// started, which picks a free port and reports it, then everybody else is started at once.
type startup struct {
	targets   []*initialConnection
	scheduler *Node // waited for to listen; nil: not now
	attempt   int   // how often it was started
	announced bool  // that it listens; everybody else is being started
	early     []ended
	failed    map[uint32]error // of processes
	errs      []error          // of the rest
	aborted   error            // why the start is given up; nil: it is not
	late      bool             // since it takes too long
	err       error            // at the end: why the job was not started
}

// An initialConnection is one that the job begins with.
type initialConnection struct {
	err error
}

// startLimit ends a start that takes too long.
type startLimit struct{}

func (startLimit) run(c *core) {
	c.start.late = true
	c.abort(fmt.Errorf("gave up after %s (--start-timeout)", c.set.StartTimeout))
}

// connectAll connects to every machine of the job, each once. All errors are reported, so that one
// attempt shows all bad hosts.
func (c *core) connectAll() {
	c.start.failed = make(map[uint32]error)
	c.after(c.set.StartTimeout, startLimit{})
	seen := make(map[string]bool)
	use := func(key string, h hosts.Host) {
		if seen[key] {
			return
		}
		seen[key] = true
		t := &initialConnection{}
		c.start.targets = append(c.start.targets, t)
		k := &connection{id: c.id(), key: key, host: h, goal: t}
		c.connections[k.id] = k
		if a := (connect{id: k.id}); key == "" {
			c.do(a)
		} else {
			a.host = &h
			c.do(a)
		}
	}
	for _, n := range c.nodes {
		use(c.machineKey(n), n.host)
	}
}

func (c *core) connectedAtStart(k *connection, e connected) {
	if e.err != nil {
		k.goal.(*initialConnection).err = e.err
		if c.start.aborted == nil || c.start.late { // else it was not waited for
			host := k.host.String()
			if k.key == "" {
				host = hosts.Local.String()
			}
			c.lostHosts = append(c.lostHosts, control.LostHost{Host: host, Reason: plainText(e.err), Unreached: k.key != "" && !errors.Is(e.err, ErrCopy)})
		}
	} else {
		m := &machine{id: e.id, key: k.key, address: e.address, launcher: e.launcher}
		c.byID[m.id], c.machines[k.key] = m, m
	}
	if len(c.connections) > 0 {
		return
	}
	for _, t := range c.start.targets {
		c.start.errs = append(c.start.errs, t.err)
	}
	for _, n := range c.nodes {
		n.machine = c.machines[c.machineKey(n)]
	}
	if c.startOver() {
		return
	}
	if err := c.checkAddresses(); err != nil {
		c.failStart(err)
		return
	}
	if c.address = c.set.HostIP; c.address != "" {
		c.startScheduler()
		return
	}
	c.do(chooseAddress{c.nodes[0].machine.id})
}

// startOver ends a start that has failed or was given up.
func (c *core) startOver() bool {
	if errors.Join(c.start.errs...) == nil && len(c.start.failed) == 0 && c.start.aborted == nil {
		return false
	}
	c.failStart(nil)
	return true
}

// checkAddresses refuses hosts that the others cannot reach.
func (c *core) checkAddresses() error {
	var loop, far string
	for _, n := range c.nodes {
		switch {
		case n.machine.launcher == "":
		case isLoopback(n.machine.address):
			loop = n.Host
		default:
			far = n.Host
		}
	}
	if loop != "" && far != "" {
		return fmt.Errorf("launch: host %s has a loopback address, which %s cannot reach; give it an address that they reach (the hosts file, or --host-ip of its agent)", loop, far)
	}
	return nil
}

func (c *core) addressChosen(e addressChosen) {
	switch {
	case c.stage != starting || c.address != "":
	case e.err != nil:
		c.failStart(e.err)
	case !c.startOver():
		c.address = e.address
		c.startScheduler()
	}
}

// announced starts everybody else.
func (c *core) announced(err error) {
	switch {
	case c.stage != starting:
		return
	case err != nil:
		c.failStart(err)
		return
	case c.startOver():
		return
	}
	c.start.announced = true
	c.do(holdOutput{}) // the table of who runs where comes first
	for _, n := range c.nodes {
		if n.Role != roleScheduler {
			c.startNode(n)
		}
	}
}

// startedAtStart goes on when a process was started, or could not be.
func (c *core) startedAtStart(n *Node, err error) {
	if err != nil {
		c.start.failed[n.process] = err
	}
	switch {
	case len(c.launching) > 0:
	case c.start.announced:
		c.allStarted()
	default:
		c.startOver() // else the scheduler is waited for to listen
	}
}

// allStarted begins the job when all first processes have been started. One whose host was lost
// before may be started again.
func (c *core) allStarted() {
	var unstarted []*Node
	for _, n := range c.nodes {
		if err := c.start.failed[n.process]; err != nil && c.start.aborted == nil && n.machine.lost && c.machineKey(n) != "" && c.attempts(n) > 0 {
			delete(c.start.failed, n.process)
			n.Exit.Code, n.Exit.Err, n.ended = 127, plainText(err), true
			unstarted = append(unstarted, n)
		}
	}
	if c.startOver() {
		return
	}
	c.stage = running
	c.timers = nil
	c.do(showStart{})
	if c.checkpoint.requested() {
		c.after(max(0, c.checkpoint.by.Sub(c.now)), checkpointLimit{})
	}
	if c.formed && c.set.Changes || len(c.notices) > 0 {
		c.follow()
	}
	if c.formed {
		c.askCheckpoint()
	}
	for _, n := range unstarted {
		if !c.goesOn(n) {
			c.failed(n)
		}
	}
	if len(c.set.Workers) > 1 { // a single worker needs no job
		c.after(joinWarnTime, noneJoined{})
	}
	for _, e := range c.start.early {
		c.processEnded(e)
	}
}

// abort ends the start: pending connections and process starts are cancelled, and their errors say
// what they waited for.
func (c *core) abort(why error) {
	if c.start.aborted != nil {
		return
	}
	c.start.aborted = why
	for _, id := range sortedKeys(c.connections) {
		c.do(cancelCall{id, why.Error()})
	}
	for _, process := range sortedKeys(c.launching) {
		c.do(cancelStart{process, why.Error()})
	}
	if len(c.connections) > 0 || len(c.launching) > 0 {
		return
	}
	if n := c.start.scheduler; n != nil {
		c.failStart(fmt.Errorf("launch: wait for the scheduler on %s to listen: %w", n.Host, why))
		return
	}
	c.failStart(nil)
}

// failStart ends the job before it has begun.
func (c *core) failStart(err error) {
	errs := append(c.start.errs, err)
	for _, n := range c.nodes {
		errs = append(errs, c.start.failed[n.process])
	}
	c.start.err = errors.Join(errs...)
	if c.start.err == nil {
		c.start.err = fmt.Errorf("launch: %w", c.start.aborted)
	}
	c.close()
}
