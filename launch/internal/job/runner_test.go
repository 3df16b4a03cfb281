package job

import (
	"errors"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A runnerKit is a runner with all that it works on.
type runnerKit struct {
	runner
	out    output
	set    settings
	procs  processes
	hosts  machines
	want   wantedState
	reaper reaper
}

func newRunnerKit(prepare bool) *runnerKit {
	k := &runnerKit{out: output{now: time.Unix(1000, 0)}}
	k.set = settings{Remote: true, Times: Times{StopTimeout: 4 * time.Second}, Elastic: Elastic{Enabled: true, JoinTimeout: time.Minute}}
	if prepare {
		k.set.PrepareData = []string{"fetch"}
	}
	k.procs.launching = make(map[uint32]*Node)
	k.procs.last, k.procs.reported = 3, 3
	k.hosts = newMachines(&k.out, true)
	k.reaper = reaper{&k.out, &k.procs, k.set.StopTimeout}
	k.runner = runner{set: &k.set, out: &k.out, procs: &k.procs, machines: &k.hosts, want: &k.want, scheduler: &endpoint{}, reaper: &k.reaper,
		accesses: make(map[string]*access), gpus: newGPUSlots(&k.set), open: true}
	return k
}

// wants lets a worker be wanted on a host.
func (k *runnerKit) wants(process uint32, host string) {
	k.arrive(control.WantedProcess{Process: process, Role: roleWorker, Rank: -1, Host: host, Prepare: true, Goal: control.GoalRun})
}

// reach answers the connection to a host.
func (k *runnerKit) reach(id int, err error) {
	call := k.hosts.answered(id)
	m, fresh, err := k.hosts.connected(call, connected{id: id, address: "10.0.0.1", launcher: "10.0.0.9", err: err}, "10.0.0.9", true)
	k.connected(call.goal.(*access), m, fresh, err)
}

// All processes that are wanted on a host wait for the same connection, and start when it is there.
func TestProcessesOfAHostShareItsConnection(t *testing.T) {
	k := newRunnerKit(false)
	k.wants(4, "d1")
	k.wants(5, "d1")
	wantDid(t, &k.out, "two are wanted", "connect 1: d1")
	k.reach(1, nil)
	wantDid(t, &k.out, "d1 is reached", "announce a worker on d1", "start 4 on machine 1", "announce a worker on d1", "start 5 on machine 1")
	if len(k.procs.arrivals) != 0 || len(k.procs.launching) != 2 || len(k.accesses) != 0 {
		t.Errorf("%d arrive, %d are being started, %d hosts are being reached; want 0, 2, 0", len(k.procs.arrivals), len(k.procs.launching), len(k.accesses))
	}
}

// A host that cannot be reached leaves all unstarted that waited for it, for the scheduler to judge.
func TestAHostThatIsNotReached(t *testing.T) {
	k := newRunnerKit(false)
	k.wants(4, "d1")
	k.out.changed = false
	k.reach(1, errors.New("launch: no route to host"))
	if len(k.procs.unstarted) != 1 || !k.procs.unstarted[0].awaited || k.procs.unstarted[0].Exit.Err != "no route to host" || !k.out.changed {
		t.Fatalf("unstarted: %+v, to be reported: %t", k.procs.unstarted, k.out.changed)
	}
	k.wants(5, "d1")
	wantDid(t, &k.out, "another is wanted", "connect 1: d1", "connect 2: d1")
}

// Workers that join wait for the command that prepares their host, and fail with it.
func TestAHostIsPreparedFirst(t *testing.T) {
	for _, code := range []int{0, 1} {
		k := newRunnerKit(true)
		k.wants(4, "d1")
		k.reach(1, nil)
		wantDid(t, &k.out, "d1 is reached", "connect 1: d1", "start 1000001 on machine 1")
		n := k.preparing(1_000_001)
		delete(k.procs.launching, n.process)
		afterExit(n, code)
		k.preparationEnded(n)
		if code == 0 {
			wantDid(t, &k.out, "prepared", "announce a worker on d1", "start 4 on machine 1")
		} else if u := k.procs.unstarted; len(u) != 1 || u[0].Exit.Err != "prepare-data: exit 1" {
			t.Errorf("unstarted: %+v", u)
		}
	}
}

// Nothing is started on a host that is being taken away.
func TestNothingStartsOnAHostThatGoes(t *testing.T) {
	k := newRunnerKit(false)
	m, _, _ := connectedTo(&k.hosts, "d1", "10.0.0.1")
	m.notice = &hostNotice{}
	k.wants(4, "d1")
	if len(k.procs.unstarted) != 1 || k.procs.unstarted[0].Exit.Err != errTakenAway.Error() {
		t.Errorf("unstarted: %+v", k.procs.unstarted)
	}
	wantDid(t, &k.out, "nothing is left there", "closeMachine {1 false}")
}

// A process that is given up while its host is being reached cancels the connection, unless another
// one waits for it.
func TestAConnectionIsCancelledWithTheLastThatWaits(t *testing.T) {
	k := newRunnerKit(false)
	k.wants(4, "d1")
	k.wants(5, "d1")
	k.out.take()
	k.giveUp(k.procs.find(4), "enough", unneeded)
	wantDid(t, &k.out, "one is given up")
	k.giveUp(k.procs.find(5), "enough", unneeded)
	wantDid(t, &k.out, "both are", "cancelCall {1 enough}")
	if k.reach(1, nil); len(k.procs.launching)+len(k.procs.unstarted)+len(k.accesses) > 0 {
		t.Error("something is left of them")
	}
}

// A connection is closed when the job has left its host, and only once nothing of the job is there.
func TestAConnectionStaysWhileSomethingIsThere(t *testing.T) {
	k := newRunnerKit(false)
	m, _, _ := connectedTo(&k.hosts, "d1", "10.0.0.1")
	n := worker(4, "d1")
	n.machine = m
	k.procs.nodes = []*Node{n}
	k.want.listed, k.want.dismissed = map[string]bool{"d1": true}, []string{"d1"}
	k.releaseAll()
	wantDid(t, &k.out, "a worker is there")
	afterExit(n, 0)
	k.want.hosts = map[string]control.WantedHost{"d1": {}}
	k.releaseAll()
	wantDid(t, &k.out, "the host is wanted")
	k.want.hosts = nil
	k.releaseAll()
	wantDid(t, &k.out, "nothing is there", "closeMachine {1 true}")
}

// Once the job no longer changes all that was under way is cancelled.
func TestAFrozenRunnerStartsNothing(t *testing.T) {
	k := newRunnerKit(true)
	k.wants(4, "d1")
	k.reach(1, nil)
	k.wants(5, "d2")
	k.out.take()
	k.freeze("the end")
	wantDid(t, &k.out, "frozen", "cancelStart {1000001 the end}", "cancelStart {1000001 the end}")
	if k.reach(2, nil); len(k.procs.launching) != 1 || len(k.procs.arrivals) != 0 {
		t.Errorf("%d are being started, %d arrive, want the preparation alone", len(k.procs.launching), len(k.procs.arrivals))
	}
}

// A process that is being started gets its signal then. One that does not end is killed after its
// time.
func TestTheReaperGivesProcessesTime(t *testing.T) {
	o := newOutput()
	p := processes{launching: map[uint32]*Node{3: worker(3, "d1")}, nodes: []*Node{worker(2, "d1")}}
	r := reaper{o, &p, 4 * time.Second}
	r.stop(p.launching[3])
	wantDid(t, o, "it is being started")
	if n := p.launching[3]; n.owed == 0 || !n.stopped || n.fate != unneeded {
		t.Errorf("got %+v", n)
	}
	n := p.nodes[0]
	r.evict(n, fate{code: control.FateRemoved}, time.Second)
	wantDid(t, o, "it has some time")
	r.evictNow(o.timers.pop().(eviction))
	wantDid(t, o, "its time is over", "signal 2: terminated")
	r.kill(o.timers.pop().(kill).node)
	wantDid(t, o, "it does not end", "signal 2: killed")
	if n.fate.code != control.FateRemoved || !n.stopped {
		t.Errorf("got %+v", n)
	}
	afterExit(n, 0)
	r.kill(n)
	wantDid(t, o, "it has ended")
}

// Servers have the limits of their host although only its workers name them.
func TestAHostHasTheLimitsThatTheJobBeganWith(t *testing.T) {
	set := &settings{Places: Places{Workers: []hosts.Host{{Name: "d1", GPUs: 2, CPUs: 3}}}}
	l := newHostLimits(set)
	for _, tc := range []struct{ in, want hosts.Host }{
		{at("d1"), hosts.Host{Name: "d1", GPUs: 2, CPUs: 3}},
		{hosts.Host{Name: "d1", CPUs: 1}, hosts.Host{Name: "d1", CPUs: 1}},
		{at("d2"), at("d2")},
	} {
		if got := l.of(tc.in); got.Entry() != tc.want.Entry() {
			t.Errorf("%s: got %s, want %s", tc.in.Entry(), got.Entry(), tc.want.Entry())
		}
	}
}

// Once the job has ended no worker starts any more; a server that is being started goes on.
func TestOnlyWorkersAreKeptFromAJobThatHasEnded(t *testing.T) {
	k := newRunnerKit(false)
	k.procs.launching = map[uint32]*Node{4: worker(4, "d1"), 5: {Role: roleServer, process: 5}}
	k.admitNone("over")
	wantDid(t, &k.out, "the job has ended", "cancelStart {4 over}")
	if n := k.procs.launching[5]; n.unwanted != (fate{}) {
		t.Errorf("the server is unwanted: %+v", n.unwanted)
	}
}

// Of a worker that ended well and is no longer wanted nothing more is said; one that runs is ended.
func TestAWorkerThatIsDismissed(t *testing.T) {
	k := newRunnerKit(false)
	done, runs := afterExit(worker(4, "d1"), 0), worker(5, "d1")
	done.awaited = true
	k.procs.nodes = []*Node{done, runs}
	k.dismiss(done)
	wantDid(t, &k.out, "one that ended well")
	if done.awaited || !done.leaving {
		t.Errorf("awaited %t, leaving %t, want leaving alone", done.awaited, done.leaving)
	}
	k.dismiss(runs)
	wantDid(t, &k.out, "one that runs", "signal 5: terminated")
}

// The rank of a worker is that with which it ended.
func TestAnEndedWorkerKeepsItsRank(t *testing.T) {
	k := newRunnerKit(false)
	n := worker(4, "d1")
	k.joined(n, 1)
	wantDid(t, &k.out, "it runs", "rename {4 {worker 1 worker 1   0}}")
	k.joined(afterExit(n, 0), 2)
	wantDid(t, &k.out, "it has ended")
	if n.Rank != 1 {
		t.Errorf("its rank is %d, want 1", n.Rank)
	}
}
