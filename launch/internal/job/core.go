package job

import (
	"log/slog"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A core decides what happens to one job, from its first connection to its end. It takes events,
// one at a time, and answers each with actions, which the shell carries out. It is pure: it has no
// clock (an event comes with its time), starts no goroutine and does no I/O. It must not be used by
// several goroutines at once.
type core struct {
	set   settings
	now   time.Time
	out   []action
	stage stage
	start startup

	deadline   time.Time        // of the processes that were asked to stop
	stageOver  time.Time        // when the stage has lasted long enough; zero: it ends by itself
	first      *Node            // that failed, by the time of its end
	final      *Node            // a worker that says that no restart can mend its error; nil: none does
	culprit    *Node            // that failed, and that the scheduler blames: the others failed because it did, even those that ended earlier
	interrupt  signalled        // that stopped the job; zero: none
	cancelled  bool             // the context of Run has ended
	checkpoint checkpointStop   // the job is to stop with one
	failure    *control.Failure // why the job failed, as the scheduler says, or the launcher found out
	// accused is the process that an error line has named as the first that failed; 0: none
	// has. Why it failed is told at the end, once.
	accused  uint32
	reported *control.Failure // the failure that the present scheduler has reported; nil: none

	nodes     []*Node // all processes of the job that were started, and those that the start is going to start; the first one is the first scheduler
	launching map[uint32]*Node
	forgotten int    // processes that ended long ago and are no longer in nodes
	processes uint32 // the highest number that the launcher has given a process
	gpuSlots  map[string][]*Node
	limits    []hosts.Host // those with gpus= or cpus= that the job began with, each once; nil: not collected yet

	ids         int                 // numbers given to connections
	requests    int                 // numbers given to requests to the scheduler
	connections map[int]*connection // under way
	byID        map[int]*machine    // all that are connected, or are being closed
	machines    map[string]*machine // those in use, by key
	asked       map[int]any         // pending requests to the scheduler, and what their answers are for

	address, port string // the scheduler's
	// heard is when the scheduler answered, reported or listened last.
	heard time.Time

	formed  bool                      // the job was complete
	present map[control.Presence]bool // who has registered, as schedulers report while the job is forming

	timers []timer
	serial int // numbers given to timers

	want      wantedState
	watching  watching
	files     bool // edits of host_worker are handed over
	report    reporting
	arrivals  []*Node // wanted, and not being started yet
	unstarted []*Node // could not be started, and the scheduler has not said what that means
	accesses  map[string]*access
	notices   map[int]*hostNotice // by machine
	members   map[string]bool     // hosts that have workers in the job, as host_worker_log has it
	scaling   scalingNews
	scales    int // how often such a number was reached

	lost       *Node         // the worker that was lost last, while the job went on
	queue      []editRequest // to the scheduler, in order; the first is under way
	restarts   int           // of the scheduler in a row
	restarting *Node         // the scheduler that is, or was, started in the place of one that ended
	done       bool          // the scheduler has ended well: nobody joins any more
	warned     bool          // that workers do not join

	standstill standstill

	metrics        string // where the scheduler serves metrics: as asked for, then as it reports, so that a scheduler that is started again has the same port
	metricsShown   bool
	adaptation     *control.Adaptation // the newest one of a job that adapts, once it has ended
	lostHosts      []control.LostHost  // that were not reached at the start
	changes        []control.Event     // the newest
	changesLeftOut int
}

// settings are what the core knows of the Config.
type settings struct {
	ID               string
	Workers, Servers []hosts.Host
	ServerHosts      []hosts.Host // on which one more server may run, if the hosts of Servers go
	Hosts            []hosts.Host // on which workers may run, with their slots
	MaxWorkers       int          // 0: any number
	MinWorkers       int
	AdaptWorkers     bool        // rank 0's wishes are carried out
	Scheduler        *hosts.Host // nil: the launching machine
	Metrics          string      // address on which the scheduler serves metrics; empty: none
	Remote           bool        // hosts are connected to; else everything runs on the launching machine
	HostIP           string
	GPUs             gpus.Request
	StartTimeout     time.Duration
	StopTimeout      time.Duration
	HostTimeout      time.Duration // a host that hears nothing from the launcher for so long ends its processes; 0: none does
	FinishTime       time.Duration
	CheckpointTime   time.Duration // for a checkpoint with which the job stops
	Elastic          bool          // hosts may join and leave
	Changes          bool          // processes may come and go while the job runs
	OnWorkerLoss     string
	JoinTimeout      time.Duration
	Rejoin, Backups  int
	Prepare          bool // a host is prepared before its workers start
	State            bool // the scheduler can be started again
	ResumeCommand    string
}

func newCore(set settings, now time.Time) *core {
	c := &core{set: set, now: now, launching: make(map[uint32]*Node), gpuSlots: make(map[string][]*Node),
		connections: make(map[int]*connection), byID: make(map[int]*machine), machines: make(map[string]*machine), asked: make(map[int]any),
		port: "0", metrics: set.Metrics, present: make(map[control.Presence]bool), accesses: make(map[string]*access), notices: make(map[int]*hostNotice), members: make(map[string]bool)}
	add := func(role string, rank int, h hosts.Host) {
		n := c.newNode(c.ownNumber(), role, rank, h)
		n.member = role == roleWorker
		c.nodes = append(c.nodes, n)
	}
	scheduler := hosts.Local
	if set.Scheduler != nil {
		scheduler = *set.Scheduler
	}
	add(roleScheduler, 0, scheduler)
	for i, h := range set.Servers {
		add(roleServer, i, h)
	}
	for i, h := range set.Workers {
		add(roleWorker, i, h)
		c.members[h.String()] = true
	}
	c.connectAll()
	return c
}

// step takes an event and says what is to be done. Time never runs backwards: an event from before
// the last one is taken to have happened at the same time. A nil event says only that time has
// passed.
func (c *core) step(e event, now time.Time) []action {
	if now.After(c.now) {
		c.looked(now)
		c.now = now
	}
	c.runTimers()
	if e != nil {
		c.take(e)
	}
	c.tellObserved()
	c.checkEnd()
	return c.actions()
}

// actions are what is to be done since they were asked for last.
func (c *core) actions() []action {
	out := c.out
	c.out = nil
	return out
}

func (c *core) take(e event) {
	switch e := e.(type) {
	case connected:
		c.connected(e)
	case machineLost:
		if m := c.byID[e.machine]; m != nil {
			m.lost, c.report.due = true, true
		}
	case machineClosed:
		c.machineClosed(e)
	case noticed:
		c.noticed(e)
	case addressChosen:
		c.addressChosen(e)
	case announced:
		c.announced(e.err)
	case started:
		c.processStarted(e)
	case startFailed:
		c.processNotStarted(e)
	case ended:
		c.processEnded(e)
	case listening:
		c.schedulerListens(e)
	case reported:
		c.schedulerReports(e)
	case answered:
		c.answered(e)
	case edited:
		if c.stage == running {
			c.edited(e)
		}
	case signalled:
		c.signalled(e)
	case cancelled:
		c.cancel(e)
	case allClosed:
		c.allClosed()
	}
}

// do adds an action.
func (c *core) do(a action) { c.out = append(c.out, a) }

func (c *core) tell(level slog.Level, text string, event ...slog.Attr) {
	c.do(tell{level, text, event})
}
func (c *core) info(text string, event ...slog.Attr)  { c.tell(slog.LevelInfo, text, event...) }
func (c *core) warn(text string, event ...slog.Attr)  { c.tell(slog.LevelWarn, text, event...) }
func (c *core) error(text string, event ...slog.Attr) { c.tell(slog.LevelError, text, event...) }

// id numbers a connection.
func (c *core) id() int {
	c.ids++
	return c.ids
}

// alive is how many processes run.
func (c *core) alive() int {
	count := 0
	for _, n := range c.nodes {
		if !n.ended {
			count++
		}
	}
	return count
}

// busy reports whether anything is pending besides the running processes.
func (c *core) busy() bool {
	for _, goal := range c.asked {
		switch goal.(type) {
		case watchRequest, reportRequest: // what they lead to is pending by itself
		default:
			return true
		}
	}
	pending := func(t timer) bool { return t.due != due(watchAgain{}) && !isVerdictWait(t) }
	return len(c.connections) > 0 || len(c.launching) > 0 || len(c.accesses) > 0 || len(c.arrivals) > 0 || c.closesMachine() ||
		c.stage == running && (slices.ContainsFunc(c.timers, pending) || c.anyAwaited())
}

// anyAwaited reports whether the scheduler is still to say what the end of a process means.
func (c *core) anyAwaited() bool {
	return slices.ContainsFunc(slices.Concat(c.nodes, c.unstarted), func(n *Node) bool { return n.awaited })
}

// checkEnd closes all connections when no process is left and nothing is pending.
func (c *core) checkEnd() {
	if c.stage >= running && c.stage < closing && c.alive() == 0 && !c.busy() {
		c.close()
	}
}

// activeWorkers is how many workers run. While the job runs, those that have not joined yet do not
// count: nobody admits them when all others are done.
func (c *core) activeWorkers() int {
	count := 0
	for _, n := range c.nodes {
		if n.Role == roleWorker && !n.ended && (n.member || c.stage > running) {
			count++
		}
	}
	return count
}
