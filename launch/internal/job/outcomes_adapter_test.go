package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/outcomes"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// presentCores are the launcher's and the scheduler's core of this tree, for package outcomes. All
// that the comparison with another tree needs to know of the two is in this file.
type presentCores struct{}

// firstAsk is added to the numbers of requests, which are apart from those of connections.
const firstAsk = 1 << 40

// A comparedLauncher is the launcher's core.
type comparedLauncher struct {
	core *core
	out  []any
}

func (presentCores) Launcher(j *outcomes.Job, now time.Time, _ *outcomes.Files) outcomes.Launcher {
	cfg := Config{
		Command: []string{"train"}, Places: Places{Workers: j.Workers, Servers: j.Servers, Hosts: j.Hosts, SchedulerHost: j.SchedulerHost},
		Times: Times{StartTimeout: j.StartTimeout, CheckpointTime: j.CheckpointTime},
		Elastic: Elastic{Enabled: j.Elastic, OnWorkerLoss: j.Loss, MinWorkers: j.Min, MaxWorkers: j.Max, AdaptWorkers: j.Adapt, JoinTimeout: j.JoinTimeout,
			Rejoin: j.Rejoin, Backups: j.Backups, Control: newFakeScheduler().control},
	}
	if j.Kept {
		cfg.Elastic.State = "journal"
	}
	if j.Prepare {
		cfg.Elastic.PrepareData = []string{"fetch"}
	}
	if err := cfg.setDefaults(); err != nil {
		panic(err)
	}
	set := cfg.settings("j")
	set.Remote = j.Remote
	l := &comparedLauncher{core: newCore(set, now)}
	l.take(l.core.out.take())
	return l
}

func (l *comparedLauncher) Next() time.Time { return l.core.next() }

func (l *comparedLauncher) Step(now time.Time, e any) []any {
	step := func(e event) { l.take(l.core.step(e, now)) }
	switch e := e.(type) {
	case nil:
		step(nil)
	case outcomes.Connected:
		step(connected{id: e.ID, address: e.Address, launcher: e.Launcher, err: e.Err})
	case outcomes.MachineLost:
		step(machineLost{e.Machine})
	case outcomes.Noticed:
		step(noticed{e.Machine, agent.Notice{Code: e.Code, Left: e.Left, Withdrawn: e.Withdrawn}})
	case outcomes.MachineClosed:
		step(machineClosed{machine: e.Machine})
	case outcomes.AddressChosen:
		step(addressChosen{address: e.Address})
	case outcomes.Announced:
		step(announced{})
	case outcomes.Started:
		step(started{e.Process, e.PID})
	case outcomes.StartFailed:
		step(startFailed{e.Process, e.Err})
	case outcomes.Ended:
		step(ended{process: e.Process, exit: e.Exit})
	case outcomes.Listening:
		step(listening{e.Process, e.Line})
	case outcomes.Reported:
		step(reported{e.Process, e.Report.(control.Report)})
	case outcomes.Answered:
		step(l.answer(e))
	case outcomes.Edited:
		step(edited{hostworker.Change{Added: e.Added, Removed: e.Removed}})
	case outcomes.Signalled:
		step(signalled{e.Signal})
	case outcomes.Cancelled:
		step(cancelled{errors.New("context canceled")})
	case outcomes.AllClosed:
		step(allClosed{})
	default:
		panic(fmt.Sprintf("event %T is not known", e))
	}
	out := l.out
	l.out = nil
	return out
}

// answer reads the answer to a request. Without one it is an error of the connection.
func (l *comparedLauncher) answer(e outcomes.Answered) event {
	x := answered{id: e.ID - firstAsk, err: e.Err}
	if e.Err != nil {
		return x
	}
	into := control.Answer(&x.done)
	if _, watches := l.core.requests.asked[x.id].(watchRequest); watches {
		into = &x.wanted
	}
	x.err = control.DecodeAnswer([]byte(e.Answer), into)
	return x
}

func (l *comparedLauncher) ask(id int, q control.Request, limit time.Duration) {
	body, err := q.Encode()
	if err != nil {
		panic(err)
	}
	l.out = append(l.out, outcomes.Ask{ID: firstAsk + id, Body: string(body), Limit: limit})
}

// take makes the core's actions those of package outcomes.
func (l *comparedLauncher) take(actions []action) {
	do := func(a any) { l.out = append(l.out, a) }
	for _, a := range actions {
		switch a := a.(type) {
		case connect:
			do(outcomes.Connect{ID: a.id, Host: a.host})
		case checkHost:
			do(outcomes.Connect{ID: a.id, Host: &a.host, Check: true})
		case cancelCall:
			do(outcomes.Cancel{ID: a.id})
		case closeMachine:
			do(outcomes.CloseMachine{Machine: a.machine})
		case chooseAddress:
			do(outcomes.ChooseAddress{})
		case announce:
			do(outcomes.Announce{Address: a.address, Port: a.port})
		case startProcess:
			do(outcomes.Start{Process: a.process, Machine: a.machine, Role: a.role, Rank: int32(a.rank), Host: a.hostName, Joins: a.joins})
		case cancelStart:
			do(outcomes.CancelStart{Process: a.process})
		case signalProcess:
			do(outcomes.Signal{Process: a.process, Signal: a.signal})
		case ask:
			l.ask(a.id, a.Request, a.limit)
		case cancelAsk:
			do(outcomes.Cancel{ID: firstAsk + a.id})
		case listHost:
			do(outcomes.ListHost{Host: a.host, Named: a.named})
		case closeAll:
			do(outcomes.CloseAll{})
		case end:
			do(outcomes.End{})
		}
	}
}

func (l *comparedLauncher) Result() outcomes.Result {
	r := l.core.result()
	x := r.Report(l.core.start.err, r.Code)
	out := outcomes.Result{Code: r.Code, Phase: x.Phase}
	if x.Failure != nil {
		out.Failure = string(x.Failure.Code)
	}
	if x.Culprit != nil {
		out.Culprit = x.Culprit.Role + " on " + x.Culprit.Host
	}
	return out
}

// A comparedScheduler is the scheduler's core with what its shell does: it keeps the journal, and
// reports to the launcher.
type comparedScheduler struct {
	core    *scheduler.Core
	now     time.Time
	journal outcomes.Journal

	// ran, stops and stopped are what the launcher was told.
	ran, stops, ended bool
	stopped           *control.Stopped
	looks             uint64
}

func (presentCores) Scheduler(j *outcomes.Job, now time.Time, journal outcomes.Journal) outcomes.Scheduler {
	set := scheduler.Settings{Job: "j", Workers: len(j.Workers), Servers: len(j.Servers), Heartbeat: j.Heartbeat, Lease: j.Lease, StartTimeout: j.StartTimeout, Patience: j.Patience,
		Unkept: journal == nil,
		Elastic: cluster.Elastic{Enabled: j.Elastic, OnWorkerLoss: cluster.LossPolicy(j.Loss), MinWorkers: j.Min, MaxWorkers: j.Max, JoinTimeout: j.JoinTimeout,
			RejoinTimeout: j.RejoinTimeout, AdaptWorkers: j.Adapt, Rejoin: j.Rejoin, Backups: j.Backups}}
	var records []scheduler.Record
	for key, value := range journal {
		records = append(records, scheduler.Record{Key: key, Value: value})
	}
	slices.SortFunc(records, func(a, b scheduler.Record) int { return cmp.Compare(a.Key, b.Key) })
	core, err := scheduler.Restore(set, now, records)
	if err != nil {
		panic(err)
	}
	return &comparedScheduler{core: core, now: now, journal: journal, looks: 1 << 40}
}

func (s *comparedScheduler) Next() time.Time { return s.core.Next() }

func (s *comparedScheduler) Step(now time.Time, request uint64, m wire.Message, stop string) (said outcomes.Said) {
	report := func(r control.Report) { said.Reports = append(said.Reports, r) }
	s.now = now
	before, _ := s.core.Phase()
	out := s.core.Step(scheduler.Event{At: now, Request: request, Message: m, Stop: stop})
	phase, _ := s.core.Phase()
	if phase == wire.PhaseFailed && before != phase && stop == "" {
		report(control.Report{Failed: s.core.Failure()})
	}
	if s.journal != nil {
		for _, r := range out.Records {
			if r.Value == nil {
				delete(s.journal, r.Key)
			} else {
				s.journal[r.Key] = r.Value
			}
		}
	}
	for _, x := range out.Presence {
		role := control.Worker
		if x.Place.Role == wire.RoleServer {
			role = control.Server
		}
		p := &control.Presence{Role: role, Rank: x.Place.Rank, Process: x.Process}
		if x.Here {
			report(control.Report{Present: p})
		} else {
			report(control.Report{Absent: p})
		}
	}
	for _, a := range out.Answers {
		said.Answers = append(said.Answers, outcomes.Answer{Request: a.Request, Message: a.Message})
	}
	if phase == wire.PhaseRunning && !s.ran {
		s.ran = true
		report(control.Report{Running: true})
	}
	if reason, limit := s.core.Stopping(); reason != "" && !s.stops {
		s.stops = true
		report(control.Report{Stopping: &control.Stopping{Reason: reason, LimitMillis: limit.Milliseconds()}})
	}
	if x := s.core.Stopped(); x != s.stopped {
		s.stopped = x
		report(control.Report{Stopped: x})
	}
	if a := s.core.Adaptation(); phase > wire.PhaseRunning && !s.ended && a != nil {
		report(control.Report{Adaptation: a})
	}
	s.ended = phase > wire.PhaseRunning
	said.Phase, said.Settled = phase, s.core.Settled()
	return said
}

func (s *comparedScheduler) Status() outcomes.Status {
	s.looks++
	said := s.Step(s.now, s.looks, &wire.Control{Request: `{"op":"status"}`}, "")
	var x control.Status
	for _, a := range said.Answers {
		if a.Request == s.looks {
			if err := json.Unmarshal([]byte(a.Message.(*wire.Report).Answer), &x); err != nil {
				panic(err)
			}
		}
	}
	out := outcomes.Status{Phase: x.Phase, Count: x.Workers, Hosts: make(map[string]string)}
	for _, h := range x.Hosts {
		out.Hosts[h.Host] = h.Status
	}
	for _, v := range x.Servers {
		text := fmt.Sprintf("%d:%s", v.Rank, v.Status)
		if v.Host != "" {
			text += "@" + v.Host
		}
		out.Servers = append(out.Servers, text)
	}
	if x.Scale != nil {
		out.Scale = fmt.Sprintf("to %d: %s", x.Scale.Workers, x.Scale.State)
	}
	return out
}

func (presentCores) Request(c outcomes.Command) string {
	q := control.Request{Host: c.Host}
	switch c.Do {
	case "add":
		q.Op, q.Slots = control.OpAdd, c.N
	case "remove":
		q.Op = control.OpRemove
	case "scale":
		q.Op, q.Workers = control.OpScale, c.N
	case "place":
		q.Op = control.OpScale
		for _, h := range c.Placement {
			q.Placement = append(q.Placement, control.WorkersOnHost{Host: h.String(), Workers: h.Slots})
		}
	case "add-server":
		q.Op = control.OpAddServer
	case "remove-server":
		q.Op, q.Rank = control.OpRemoveServer, c.N
	case "stop":
		q.Op, q.Reason = control.OpCheckpointStop, "launch ctl stop"
	}
	body, err := q.Encode()
	if err != nil {
		panic(fmt.Sprintf("%v: %v", c, err))
	}
	return string(body)
}

func (presentCores) Answered(answer string) string {
	switch err := control.DecodeAnswer([]byte(answer), &control.Done{}); {
	case errors.Is(err, control.ErrLater):
		return "later"
	case err != nil:
		return "refused"
	}
	return "ok"
}

func (presentCores) Adaptation(workers int) string {
	text, err := control.EncodeAdaptation(control.Adaptation{WishedWorkers: workers})
	if err != nil {
		panic(err)
	}
	return text
}
