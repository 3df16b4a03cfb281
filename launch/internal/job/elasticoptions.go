package job

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// Elastic are the options about how the processes of a job may change while it runs. The scheduler
// decides by them; of this package reconcile.go and ends.go do what it decides. The zero value is a
// job whose processes are fixed: the first one that fails ends it.
type Elastic struct {
	// Enabled says that hosts may join and leave: as host_worker, or launch ctl add, remove and
	// scale, want it. No policy of OnWorkerLoss sets it.
	Enabled bool
	// OnWorkerLoss is what the others do when a worker is lost: shrink, wait or fail; empty:
	// shrink where Enabled, else fail. Shrink says only that nobody waits: with Rejoin above 0 a
	// replacement is started, and joins, also where Enabled is false.
	OnWorkerLoss string
	// MinWorkers and MaxWorkers are 0 for the scheduler's defaults.
	MinWorkers, MaxWorkers int
	// AdaptWorkers says that the number of workers follows what rank 0 asks for. It wants a
	// MaxWorkers.
	AdaptWorkers bool
	// JoinTimeout is for reaching a new host and preparing it, and again for its workers to be
	// ready; 0: 5 min.
	JoinTimeout time.Duration
	// Rejoin is how often in a row a lost worker is started again where it was, unless
	// OnWorkerLoss is fail. Zero: never, so that shrink makes the job smaller for good. (The flag
	// --rejoin is 3 by default.)
	Rejoin int
	// PrepareData is a command that must end with 0 on a new host before a worker is started
	// there; nil: none.
	PrepareData []string
	// Backups is how many every shard has: with one or more a server may be lost.
	Backups int
	// State is the folder, or etcd://host:port/prefix, where the scheduler keeps what it decided,
	// to be started again; empty: nowhere.
	State string

	// Files name the wanted hosts, and tell of those that came and went; nil: there are none.
	Files *hostworker.Files

	// There are the hosts that can be connected to at once, where hosts come by themselves:
	// those that may run workers, and servers. A job that is started again does not wait for
	// others. nil: all hosts can.
	There func() (workers, servers []hosts.Host)

	// Here reports whether a host is the launching machine; nil: all are. Only jobs without a
	// Dial ask.
	Here func(h hosts.Host) bool

	// Command is how a host is reached, for the log; nil: "on" and the host.
	Command func(h hosts.Host) string

	// Control asks the scheduler.
	Control Control
}

// The policies of OnWorkerLoss.
const (
	// LossShrink: the others go on at once. A replacement is started as with LossWait, unless
	// Rejoin is 0.
	LossShrink = "shrink"
	// LossWait: the others wait for the replacement after the step under way.
	LossWait = "wait"
	// LossFail: the job fails, and nothing is started again.
	LossFail = "fail"
)

const defaultJoinTimeout = 5 * time.Minute

func (e *Elastic) setDefaults() error {
	if e.OnWorkerLoss == "" {
		if e.OnWorkerLoss = LossFail; e.Enabled {
			e.OnWorkerLoss = LossShrink
		}
	}
	if e.JoinTimeout == 0 {
		e.JoinTimeout = defaultJoinTimeout
	}
	switch {
	case e.OnWorkerLoss != LossShrink && e.OnWorkerLoss != LossWait && e.OnWorkerLoss != LossFail:
		return fmt.Errorf("launch: on-worker-loss is %q, want shrink, wait or fail", e.OnWorkerLoss)
	case e.JoinTimeout < 0 || e.Rejoin < 0 || e.Backups < 0 || e.MinWorkers < 0 || e.MaxWorkers < 0:
		return fmt.Errorf("launch: join timeout %s, rejoin %d, backups %d, workers %d to %d: want none below 0",
			e.JoinTimeout, e.Rejoin, e.Backups, e.MinWorkers, e.MaxWorkers)
	case e.AdaptWorkers && (!e.Enabled || e.MaxWorkers == 0):
		return fmt.Errorf("launch: AdaptWorkers needs an elastic job with MaxWorkers above 0")
	case e.Changes() && e.Control == nil:
		return fmt.Errorf("launch: a job that can change needs Control, to ask its scheduler")
	}
	return nil
}

// Changes reports whether processes may come and go while the job runs.
func (e *Elastic) Changes() bool {
	return e.Enabled || e.OnWorkerLoss != LossFail || e.Backups > 0
}

// state is where the scheduler of a job keeps what it decided.
func (e *Elastic) state(id string) string {
	switch {
	case e.State == "":
		return ""
	case strings.HasPrefix(e.State, "etcd://"):
		return e.State + "/" + id
	}
	return e.State + "/scheduler-" + id
}

// environment is what the scheduler is told of it.
func (e *Elastic) environment() []string {
	env := []string{"PARAGON_ON_WORKER_LOSS=" + e.OnWorkerLoss}
	if e.Enabled {
		env = append(env, "PARAGON_ELASTIC=1", "PARAGON_JOIN_TIMEOUT="+e.JoinTimeout.String())
	}
	if e.AdaptWorkers {
		env = append(env, "PARAGON_ADAPT_WORKERS=1")
	}
	for _, v := range []struct {
		name  string
		value int
	}{{"PARAGON_MIN_WORKERS", e.MinWorkers}, {"PARAGON_MAX_WORKERS", e.MaxWorkers}, {"PARAGON_REJOIN", e.Rejoin}, {"PARAGON_BACKUPS", e.Backups}} {
		if v.value > 0 {
			env = append(env, v.name+"="+strconv.Itoa(v.value))
		}
	}
	return env
}

// wishRange is what a worker is told of the numbers that it may wish for: no more than there are
// slots.
func (e *Elastic) wishRange(all []hosts.Host) []string {
	if !e.AdaptWorkers {
		return nil
	}
	return []string{"PARAGON_ADAPT_WORKERS=1", "PARAGON_MIN_WORKERS=" + strconv.Itoa(max(e.MinWorkers, 1)), "PARAGON_MAX_WORKERS=" + strconv.Itoa(min(e.MaxWorkers, slots(all)))}
}

// slots is how many workers hosts have slots for; a host without slots= has room for any number.
func slots(all []hosts.Host) (count int) {
	for _, h := range hosts.Merge(all) {
		if h.Slots == 0 {
			return math.MaxInt
		}
		count += h.Slots
	}
	return count
}
