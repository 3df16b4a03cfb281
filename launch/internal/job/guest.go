package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/hosts"
	"github.com/paragon-train/paragon/internal/process"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// A guest is a host on which workers are being started that will join the job.
type guest struct {
	host   hosts.Host
	cancel context.CancelFunc // of that work
}

// filesEvery is how often host_worker is read.
const filesEvery = time.Second

// leaveTime is how long workers of a removed host have to end by themselves once the scheduler has let them go.
const leaveTime = 15 * time.Second

// changes starts whoever tells of the scheduler's events and of edits of host_worker. stop waits for them.
func (w *watch) changes() (events <-chan control.Event, edits <-chan hostworker.Change, stop func()) {
	e := &w.run.cfg.Elastic
	if !e.Changes() {
		return nil, nil, w.rest
	}
	ctx, cancel := context.WithCancel(context.Background())
	all := make(chan struct{})
	left := 1
	happened, edited := make(chan control.Event), make(chan hostworker.Change)
	go func() { w.run.follow(ctx, happened); all <- struct{}{} }()
	if e.Files != nil {
		left++
		go func() { w.run.watchFiles(ctx, e.Files, edited); all <- struct{}{} }()
	}
	return happened, edited, func() {
		w.rest()
		cancel()
		for range left {
			<-all
		}
	}
}

// watchFiles hands over what edits of host_worker ask for, until ctx ends.
func (r *run) watchFiles(ctx context.Context, files *hostworker.Files, to chan<- hostworker.Change) {
	select {
	case <-r.formed.done: // before, hosts can neither join nor leave
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(filesEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		c, err := files.Poll()
		if err != nil {
			r.cfg.Logger.Warn(err.Error())
		}
		if c.Empty() {
			continue
		}
		select {
		case to <- c:
		case <-ctx.Done():
			return
		}
	}
}

// A request is one to the scheduler, and what is done with its end.
type request struct {
	control.Request
	done func(err error)
}

// tell asks the scheduler for something, after all that was asked before.
func (w *watch) tell(q control.Request, done func(err error)) {
	w.requests = append(w.requests, request{q, done})
	if len(w.requests) == 1 {
		w.tellNext()
	}
}

func (w *watch) tellNext() {
	q := w.requests[0]
	w.start(func(ctx context.Context) func() {
		err := w.run.do(ctx, q.Request)
		return func() {
			w.requests = w.requests[1:]
			if ctx.Err() == nil {
				q.done(err)
			}
			if len(w.requests) > 0 {
				w.tellNext()
			}
		}
	})
}

// edit passes on what an edit of host_worker asks for; the scheduler decides.
func (w *watch) edit(c hostworker.Change) {
	log := w.run.cfg.Logger
	for _, h := range c.Resized {
		log.Warn(fmt.Sprintf("%s: slots=, gpus= and cpus= of %s take effect when the host is added; to change them, remove the host, and add it again once it has left", hostworker.Name, h))
	}
	for _, h := range c.Removed {
		w.tell(control.Request{Op: control.OpRemove, Host: h.String()}, func(err error) {
			if err != nil {
				log.Error(fmt.Sprintf("%s: remove %s: %v", hostworker.Name, h, err))
			}
		})
	}
	for _, h := range c.Added {
		w.tell(control.Request{Op: control.OpAdd, Host: h.String(), Slots: h.Slots, GPUs: h.GPUs, CPUs: h.CPUs}, func(err error) {
			if err != nil {
				log.Error(fmt.Sprintf("%s: add %s: %v", hostworker.Name, h, err))
			}
		})
	}
}

// event carries out what the scheduler has decided about a host.
func (w *watch) event(e control.Event) {
	if w.membership = append(w.membership, e); len(w.membership) > maxChanges {
		w.membership = slices.Delete(w.membership, 0, 1)
		w.membershipLeftOut++
	}
	switch {
	case e.OfServer():
		w.serverEvent(e)
		return
	case e.Action == control.Ranks:
		w.learnRanks()
		return
	}
	h, err := hosts.ParseHost(e.Host)
	if err != nil {
		w.run.cfg.Logger.Error(fmt.Sprintf("launch: %s of a host: %v", e.Action, err))
		return
	}
	listed := w.listed(h)
	h.Slots, h.GPUs, h.CPUs = max(e.Slots, listed.Slots), cmp.Or(e.GPUs, listed.GPUs), cmp.Or(e.CPUs, listed.CPUs)
	switch e.Action {
	case control.AddQueued:
		w.list(h, true)
		if w.stage == running {
			w.welcome(h)
		}
	case control.Added:
		w.changed = true
		w.counts(e)
		w.learnRanks()
		w.say(e, "joined the job")
		w.present(h, true, e)
	case control.RemovalQueued:
		w.list(h, false)
		if w.here[h.String()] {
			w.say(e, "leaves the job at its next step")
		}
		w.dismiss(h)
	case control.Removed:
		w.changed = true
		if w.here[h.String()] {
			w.say(e, "has left the job")
		} else {
			w.say(e, "was removed; it had no worker in the job")
		}
		w.present(h, false, e)
		w.expect(h)
	case control.Leaving:
		w.say(e, "lets a worker go at its next step")
		w.part(e)
	case control.Left:
		w.changed = true
		w.say(e, "goes on without a worker that has left")
		if n := w.part(e); n != nil && !n.ended {
			w.turnOut(n, fate{control.FateRemoved, "had to be stopped"}, leaveTime)
		}
	case control.Lost:
		if w.stage > running { // it is the end of the job that takes them away
			return
		}
		if w.say(e, "lost a "+e.Role); e.Role == roleServer {
			w.goneServer(e)
		} else {
			w.gone(h, e)
		}
	case control.HostFailed:
		w.run.cfg.Logger.Error(fmt.Sprintf("host %s could not join: %s; the job goes on without it", e.Host, e.Reason))
		w.turnAway(h, e.Reason)
	}
}

// part takes note of a worker that leaves alone, since somebody told it to, and returns it; nil: launch did not start it.
func (w *watch) part(e control.Event) *Node {
	n := w.run.nodeOf(e.Process)
	if n == nil {
		return nil
	}
	if n.leaving = true; n.ended && n.Exit.OK() && n.fate.code == "" {
		n.fate = fate{code: control.FateRemoved} // it ended before this news came
	}
	return n
}

// counts takes note of a worker that counts from now on.
func (w *watch) counts(e control.Event) {
	if n := w.run.nodeOf(e.Process); n != nil {
		n.joining, n.member = false, true
	}
}

// listed is a host as host_worker has it; the zero Host: it has not.
func (w *watch) listed(h hosts.Host) hosts.Host {
	if files := w.run.cfg.Elastic.Files; files != nil {
		for _, l := range files.Hosts() {
			if l.Same(h) {
				return l
			}
		}
	}
	return hosts.Host{}
}

// present writes into host_worker_log that a host has workers which count, or none any more, if that is news.
func (w *watch) present(h hosts.Host, here bool, e control.Event) {
	if w.here[h.String()] == here {
		return
	}
	w.here[h.String()] = here
	action := hostworker.Removed
	if here {
		action = hostworker.Added
	}
	if files := w.run.cfg.Elastic.Files; files != nil {
		if err := files.Log(action, e.Host, e.TimeNS); err != nil {
			w.run.cfg.Logger.Error(err.Error())
		}
	}
}

// departed writes down the hosts that left just before the job ended: the scheduler ends with it, and may not have told.
func (w *watch) departed() {
	stayed := func(h hosts.Host) bool {
		return slices.ContainsFunc(w.run.nodes, func(n *Node) bool {
			return n.Role == roleWorker && n.host.Same(h) && (!n.ended || n.member && n.fate.code == "")
		})
	}
	for _, n := range w.run.nodes {
		if n.Role == roleWorker && n.fate.code == control.FateRemoved && w.here[n.host.String()] && !stayed(n.host) {
			w.present(n.host, false, control.Event{Host: n.host.String(), TimeNS: time.Now().UnixNano()})
		}
	}
}

func (w *watch) say(e control.Event, what string) {
	text := fmt.Sprintf("host %s %s", e.Host, what)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	w.run.cfg.Logger.Info(text)
}

// list makes host_worker name a host, or not, as others than its editor decided.
func (w *watch) list(h hosts.Host, named bool) {
	files := w.run.cfg.Elastic.Files
	if files == nil {
		return
	}
	change := files.Remove
	if named {
		change = files.Add
	}
	if err := change(h); err != nil {
		w.run.cfg.Logger.Error(err.Error())
	}
}

// on are the workers that run on a host.
func (w *watch) on(h hosts.Host) (nodes []*Node) {
	for _, n := range w.run.nodes {
		if n.Role == roleWorker && !n.ended && n.host.Same(h) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// welcome brings an added host up: it is reached and prepared, then its workers are started.
func (w *watch) welcome(h hosts.Host) {
	delete(w.leaving, h.String())
	w.waves[h.String()]++ // those that were about to be started again are among the new ones
	for g := range w.guests {
		if g.host.Same(h) {
			return // it is on its way
		}
	}
	w.bring(h, max(h.Slots, 1), 0)
}

// bring starts so many workers on h, which join the job. attempt counts from 1 on where there were such workers before, else it is 0.
func (w *watch) bring(h hosts.Host, workers, attempt int) {
	g := &guest{host: h}
	w.guests[g] = true
	var ctx context.Context
	limit := w.run.cfg.Elastic.JoinTimeout
	// The scheduler, too, gives the host up after that time, and would know less to say about it.
	ctx, g.cancel = context.WithTimeoutCause(w.working, limit-min(limit/20, time.Second), fmt.Errorf("not done after %s (--join-timeout)", limit))
	old := w.run.machines[w.run.key(h)]
	var preparation *Node
	if len(w.run.cfg.Elastic.PrepareData) > 0 {
		preparation = w.run.newNode(rolePrepare, 0, h)
	}
	w.start(func(context.Context) func() {
		m, fresh, err := w.run.reach(ctx, h, old)
		if err == nil && preparation != nil && (attempt == 0 || fresh) {
			err = w.run.prepare(ctx, m, preparation)
		}
		return func() {
			if fresh && m != nil {
				m = w.adopt(w.run.key(h), m)
			}
			gone := w.working.Err() != nil || w.over || w.leaving[h.String()]
			if err == nil && !gone {
				w.join(ctx, g, m, workers, attempt)
				return
			}
			g.cancel()
			delete(w.guests, g)
			switch {
			case gone:
			case attempt > 0:
				w.bringAgain(h, attempt+1, err, false)
			default:
				w.fail(h, err)
			}
			w.leave(h)
		}
	})
}

// join starts workers on a host that is ready for them.
func (w *watch) join(ctx context.Context, g *guest, m Machine, workers, attempt int) {
	left := workers
	for range workers {
		w.run.cfg.Output.Print(fmt.Sprintf("Launching new worker jobs :%s\n", w.run.command(g.host)))
		n := w.run.newNode(roleWorker, w.run.workers, g.host)
		w.run.workers++
		n.machine, n.joining, n.attempt = m, true, attempt
		w.launch(ctx, n, nil, func(err error) {
			if left--; left == 0 {
				g.cancel()
				delete(w.guests, g)
			}
			if err != nil {
				w.fail(g.host, err)
				w.leave(g.host)
			}
		})
	}
}

// launch starts the process of a node beside the loop, and makes it one of the job's.
func (w *watch) launch(ctx context.Context, n *Node, report *report, done func(err error)) {
	spec := w.run.spec(n)
	w.start(func(context.Context) func() {
		err := w.run.startNode(ctx, n, spec, report)
		return func() {
			if err == nil {
				w.run.nodes = append(w.run.nodes, n)
				w.run.attend(n)
			} else {
				w.run.freeGPUs(n)
			}
			switch {
			case err != nil:
			case w.stage >= stopAll || n.Role == roleWorker && w.working.Err() != nil: // the others have been told, or will be
				n.stopped, n.fate = true, fate{code: control.FateUnneeded}
				n.signal(syscall.SIGTERM)
			case n.Role == roleWorker && (w.over || w.leaving[n.host.String()]):
				w.turnOut(n, fate{code: control.FateUnneeded}, 0)
			}
			done(err)
		}
	})
}

// fail tells the scheduler that a host cannot take part.
func (w *watch) fail(h hosts.Host, err error) {
	text := strings.TrimPrefix(err.Error(), "launch: ")
	w.tell(control.Request{Op: control.OpFailed, Host: h.String(), Reason: text}, func(err error) {
		if err != nil { // it has other workers, say
			w.run.cfg.Logger.Warn(fmt.Sprintf("host %s: %s (%v)", h, text, err))
		}
	})
}

// dismiss ends all that is under way for a host which is being removed, but not its workers that count: those leave at a boundary.
func (w *watch) dismiss(h hosts.Host) {
	w.leaving[h.String()] = true
	w.waves[h.String()]++
	w.cancel(h)
	for _, n := range w.on(h) {
		if n.leaving = true; !n.member {
			w.turnOut(n, fate{control.FateRemoved, "before it had joined"}, 0)
		}
	}
}

// cancel ends the work that brings workers up on a host.
func (w *watch) cancel(h hosts.Host) {
	for g := range w.guests {
		if g.host.Same(h) {
			g.cancel()
		}
	}
}

// expect sees to it that the workers of a removed host end.
func (w *watch) expect(h hosts.Host) {
	for _, n := range w.run.nodes {
		if n.Role == roleWorker && n.host.Same(h) && n.ended && n.Exit.OK() && n.fate.code == "" {
			n.fate = fate{code: control.FateRemoved} // it ended before this news came
		}
	}
	for _, n := range w.on(h) {
		if n.member {
			w.turnOut(n, fate{control.FateRemoved, "had to be stopped"}, leaveTime)
		}
	}
	w.leave(h)
}

// turnAway ends the workers of a host that could not join.
func (w *watch) turnAway(h hosts.Host, reason string) {
	w.cancel(h)
	for _, n := range w.on(h) {
		if !n.member {
			w.turnOut(n, fate{control.FateRefused, "could not join: " + reason}, 0)
		}
	}
}

// turnOut ends a process that is no longer wanted: after a time it gets SIGTERM, later SIGKILL.
func (w *watch) turnOut(n *Node, why fate, after time.Duration) {
	w.start(func(ctx context.Context) func() {
		if !within(ctx, n, after) {
			return func() {
				if n.stopped = true; n.fate.code == "" && !n.ended {
					n.fate = why
				}
				n.signal(syscall.SIGTERM)
				w.start(func(ctx context.Context) func() {
					if !within(ctx, n, w.run.cfg.StopTimeout) {
						n.signal(syscall.SIGKILL)
					}
					return func() {}
				})
			}
		}
		return func() {}
	})
}

// within reports whether a process ends within a time, or everything does.
func within(ctx context.Context, n *Node, d time.Duration) bool {
	select {
	case <-n.handle.Done():
		return true
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-n.handle.Done():
	case <-ctx.Done(): // whoever ends the job ends this process, too
	}
	return true
}

// leave gives a host's machine up once nothing of the job is there any more.
func (w *watch) leave(h hosts.Host) {
	key := w.run.key(h)
	m := w.run.machines[key]
	if m == nil || key == "" || w.stage > running || !w.leaving[h.String()] && !lostMachine(m) {
		return
	}
	for _, n := range w.run.nodes {
		if n.machine == m && !n.ended {
			return
		}
	}
	for g := range w.guests {
		if w.run.key(g.host) == key {
			return
		}
	}
	delete(w.run.machines, key)
	w.start(func(context.Context) func() {
		err := m.Close()
		return func() {
			if err != nil && !lostMachine(m) {
				w.run.cfg.Logger.Warn(err.Error())
			}
		}
	})
}

// adopt makes a machine that was reached the one of its host, and returns it. Where others have reached the host meanwhile theirs is the one. What
// is left over is closed.
func (w *watch) adopt(key string, m Machine) Machine {
	have := w.run.machines[key]
	over := have
	if have != nil && !lostMachine(have) {
		m, over = have, m
	}
	w.run.machines[key] = m
	if over != nil && over != m {
		w.start(func(context.Context) func() {
			over.Close() // its error, where the connection is gone, is told with the processes that it had
			return func() {}
		})
	}
	return m
}

// lostMachine reports whether the connection to a machine is gone.
func lostMachine(m Machine) bool {
	if m, ok := m.(interface{ Gone() <-chan struct{} }); ok {
		select {
		case <-m.Gone():
			return true
		default:
		}
	}
	return false
}

// key is how the machine of a host is called in machines.
func (r *run) key(h hosts.Host) string {
	if r.cfg.Dial == nil {
		return ""
	}
	return h.String()
}

// reach returns the machine of a host: old if that still answers, else a fresh one.
func (r *run) reach(ctx context.Context, h hosts.Host, old Machine) (m Machine, fresh bool, err error) {
	if r.cfg.Dial == nil {
		if here := r.cfg.Elastic.Here; here != nil && !here(h) {
			return nil, false, fmt.Errorf("launch: host %s is not this machine, where all of this job runs; start the job with -H FILE to have it on several hosts", h)
		}
		return old, false, nil
	}
	if old != nil && !lostMachine(old) {
		return old, false, nil
	}
	if m, err = r.cfg.Dial(ctx, h); err != nil {
		return nil, false, err
	}
	if isLoopback(m.Address()) != isLoopback(r.address) {
		m.Close()
		return nil, false, fmt.Errorf("launch: host %s has the address %s, and the scheduler %s; one of them is a loopback address, which the other's host does not reach",
			h, m.Address(), r.address)
	}
	return m, true, nil
}

// prepare runs the command that must succeed on a host before it takes part; n is that command.
func (r *run) prepare(ctx context.Context, m Machine, n *Node) error {
	env := append(slices.Clone(r.cfg.Env), r.cfg.WorkerEnv...)
	spec := process.Spec{Name: n.Name(), Command: r.cfg.Elastic.PrepareData, Dir: r.cfg.Dir, Env: append(env, "DMLC_NODE_HOST="+r.hostName(n.host))}
	n.machine = m
	if err := r.startNode(ctx, n, spec, nil); err != nil {
		return fmt.Errorf("prepare-data: %w", err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-n.handle.Done():
		case <-ctx.Done():
			n.signal(sig)
			within(context.Background(), n, r.cfg.StopTimeout)
		}
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("prepare-data: %w", context.Cause(ctx))
	case !within(context.Background(), n, killTime):
		return errors.New("prepare-data: cannot be stopped")
	}
	n.finish()
	if !n.Exit.OK() {
		text := fmt.Sprintf("prepare-data: %s", n.Exit)
		if last := cut(n.Last, 300); last != "" {
			text += ": " + last
		}
		return errors.New(text)
	}
	return nil
}

// command is how a host is reached, in words.
func (r *run) command(h hosts.Host) string {
	if r.cfg.Elastic.Command == nil {
		return "local " + h.String()
	}
	return r.cfg.Elastic.Command(h)
}
