package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A jobState is where the whole job stands: its phase and why it ended, the versions of its
// membership, and whether it is being stopped.
//
// The phase only goes forward: forming, running, then finished or failed. The generation goes up
// when the workers and servers that count are other ones; nodes and servers refuse what belongs to
// another one. The revision goes up with everything that a wire.Membership says, so that a watch
// misses nothing.
type jobState struct {
	set *Settings
	// start is when this scheduler began, which after a restart is later than the job's start.
	start time.Time

	phase      uint8
	generation uint64
	revision   uint64
	// reason says why the job failed, for people; failure says it with fields. Empty and nil:
	// it has not.
	reason  string
	failure *control.Failure

	stop stopMode
	// stopsFor is why the job stops with a checkpoint.
	stopsFor string
	// stopWithin is how long that may take; 0: as long as the launcher lets it.
	stopWithin time.Duration
	// stopped is what the job can go on from; nil: no worker has told.
	stopped *control.Stopped

	dirty bool
}

// A stopMode says whether the whole job is being stopped, and how.
type stopMode uint8

const (
	// notStopping is the mode of a job that goes on.
	notStopping stopMode = iota
	// stoppingAll lets no single worker leave, so that all stop together.
	stoppingAll
	// stoppingWithCheckpoint is stoppingAll, and the workers write a checkpoint first.
	stoppingWithCheckpoint
)

// journalFormat is the number of the format of the records. A scheduler reads the records of its
// own format alone: all processes of a job are of one build.
const journalFormat = 3

// A keptJob is the record of a jobState.
type keptJob struct {
	Format     int
	Job        string
	Phase      uint8
	Generation uint64
	Revision   uint64
	Reason     string           `json:",omitempty"`
	Failure    *control.Failure `json:",omitempty"`
	Stop       stopMode         `json:",omitempty"`
	StopsFor   string           `json:",omitempty"`
	StopWithin time.Duration    `json:",omitempty"`
	Stopped    *control.Stopped `json:",omitempty"`
}

var phaseNames = [...]string{wire.PhaseForming: control.Forming, wire.PhaseRunning: control.Running, wire.PhaseFinished: control.Finished, wire.PhaseFailed: control.Failed}

func newJobState(set *Settings, start time.Time) jobState {
	return jobState{set: set, start: start, phase: wire.PhaseForming, revision: 1, dirty: true}
}

// open reports whether the job has not ended.
func (j *jobState) open() bool { return j.phase == wire.PhaseForming || j.phase == wire.PhaseRunning }

// running reports whether the job has begun and has not ended.
func (j *jobState) running() bool { return j.phase == wire.PhaseRunning }

// formed begins the run, in the first generation.
func (j *jobState) formed() { j.phase, j.generation, j.dirty = wire.PhaseRunning, j.generation+1, true }

// regenerate makes a new generation: the nodes that count are other ones.
func (j *jobState) regenerate() { j.generation, j.dirty = j.generation+1, true }

// revise makes a new revision.
func (j *jobState) revise() { j.revision, j.dirty = j.revision+1, true }

// finish ends the job. f says why it failed; nil: it is done.
func (j *jobState) finish(out *output, f *control.Failure) {
	j.phase, j.dirty = wire.PhaseFinished, true
	if f == nil {
		return
	}
	j.phase, j.failure, j.reason = wire.PhaseFailed, f, f.String()
	out.note("the job failed: %s", j.reason).Event = joblog.JobFailed.Of(joblog.Node{Role: f.Role, Rank: f.Rank, Host: f.Host, Process: f.Process}, "failure", f.Code, "reason", j.reason)
}

// ended says to those who waited for something that the job has ended.
func (j *jobState) ended() string {
	if j.reason == "" {
		return "the job has finished"
	}
	return "the job failed: " + j.reason
}

// over says why an ended job does not do what is asked.
func (j *jobState) over() string { return "the job has " + phaseNames[j.phase] + because(j.reason) }

// stopAll notes that the launcher stops the whole job.
func (j *jobState) stopAll(out *output) {
	if j.stop == notStopping {
		j.stop, j.dirty = stoppingAll, true
		out.note("the whole job is being stopped").Event = joblog.JobStopping.With()
	}
}

// stopWithCheckpoint notes that the job stops with a checkpoint. It reports whether that is news.
func (j *jobState) stopWithCheckpoint(out *output, reason string) bool {
	if j.stop == stoppingWithCheckpoint {
		return false
	}
	j.stop, j.stopsFor, j.dirty = stoppingWithCheckpoint, cmp.Or(reason, "no reason given"), true
	out.note("the job stops with a checkpoint: %s", j.stopsFor).Event = joblog.JobStopping.With("reason", j.stopsFor)
	return true
}

// workerStopped takes what a worker says that the job can go on from. A checkpoint that is complete
// stays so, whatever others say later.
func (j *jobState) workerStopped(out *output, request uint64, n *node, m *wire.Stopped) {
	switch {
	case n.Role != wire.RoleWorker:
		out.refuse(request, wire.CodeUnsupported, "stopped: %v is not a worker", n)
		return
	case j.stop != stoppingWithCheckpoint:
		out.refuse(request, wire.CodeConflict, "stopped: %v: the job was not asked to stop with a checkpoint", n)
		return
	case j.stopped == nil, j.stopped.Steps == 0 && m.Steps > 0:
		j.stopped, j.dirty = &control.Stopped{Steps: m.Steps, Reason: m.Reason}, true
	}
	out.ack(request)
}

// incarnation is another number after each start of the scheduler: when it began, in microseconds,
// which a program that knows floats alone can hold.
func (j *jobState) incarnation() uint64 { return uint64(j.start.UnixMicro()) }

// clock is the time of this scheduler's clock, which does not jump when the system's is set.
func (j *jobState) clock(now time.Time) int64 { return telemetry.Unix(j.start, now) }

// next is when the job fails because nodes are missing.
func (j *jobState) next(bool) time.Time {
	if j.phase != wire.PhaseForming {
		return time.Time{}
	}
	return j.start.Add(j.set.StartTimeout)
}

func (j *jobState) keep(out *output) {
	if j.dirty {
		j.dirty = false
		out.put("job", j.kept())
	}
}

func (j *jobState) kept() keptJob {
	return keptJob{journalFormat, j.set.Job, j.phase, j.generation, j.revision, j.reason, j.failure, j.stop, j.stopsFor, j.stopWithin, j.stopped}
}

// restore takes the record. It is the first one that is restored, so that a journal of another job
// or build is refused before anything else of it is read.
func (j *jobState) restore(_ string, value []byte) error {
	var k keptJob
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	switch {
	case k.Job != j.set.Job:
		return fmt.Errorf("it is of job %q, this is job %q", k.Job, j.set.Job)
	case k.Format != journalFormat:
		return fmt.Errorf("another build of Paragon wrote this journal (format %d, this build reads %d): go on with that build, or start the job with another --state", k.Format, journalFormat)
	case k.Phase < wire.PhaseForming || k.Phase > wire.PhaseFailed:
		return fmt.Errorf("unknown phase %d", k.Phase)
	case k.Stop > stoppingWithCheckpoint:
		return fmt.Errorf("unknown way to stop %d", k.Stop)
	}
	j.phase, j.generation, j.revision, j.reason, j.failure = k.Phase, k.Generation, k.Revision, k.Reason, k.Failure
	j.stop, j.stopsFor, j.stopWithin, j.stopped = k.Stop, k.StopsFor, k.StopWithin, k.Stopped
	return nil
}
