package tune

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// fakeHosts answer, or do not.
type fakeHosts struct {
	mu    sync.Mutex
	down  map[string]bool
	asked map[string][]time.Time
	begun time.Time
}

func (f *fakeHosts) ask(_ context.Context, h hosts.Host) (agent.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[h.Name] = append(f.asked[h.Name], time.Now())
	if f.down[h.Name] {
		return agent.Answer{}, errors.New("connection refused")
	}
	return agent.Answer{CPUs: []int{0, 1}}, nil
}

func (f *fakeHosts) set(name string, down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down[name] = down
}

// newFakeHosts makes Jobs on hosts that answer, but for those that are down.
func newFakeHosts(t *testing.T, lines string, down ...string) (*fakeHosts, *Jobs) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeHosts{down: make(map[string]bool), asked: make(map[string][]time.Time), begun: time.Now()}
	for _, name := range down {
		f.down[name] = true
	}
	j := &Jobs{HostFile: writeHosts(t, lines), Address: "127.0.0.1", Launch: self, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), ask: f.ask}
	if err := j.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.asked = make(map[string][]time.Time)
	return f, j
}

// keep runs keepHosts until stop, which returns its error.
func keep(t *testing.T, j *Jobs, r Resources) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.keepHosts(ctx, r, 0) }()
	synctest.Wait()
	return func() error { cancel(); return <-done }
}

func names(j *Jobs) (all []string) {
	for _, u := range j.nodes.Usage() {
		if !u.Aside {
			all = append(all, u.Name)
		}
	}
	return all
}

// A host that is lost is asked at once, and then more and more rarely, but at least once a minute.
// It is taken back when it answers.
func TestALostHostIsProbedAndTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, j := newFakeHosts(t, "d1 gpus=0\nd2 gpus=0\n")
		stop := keep(t, j, Resources{})
		if len(f.asked) != 0 {
			t.Errorf("hosts that work were asked: %v", f.asked)
		}
		g, err := j.Acquire(t.Context(), Resources{Hosts: 2})
		if err != nil {
			t.Fatal(err)
		}
		f.set("d2", true)
		begin := time.Now()
		j.suspect("d2", errors.New("connection lost"))
		synctest.Wait()
		select {
		case <-g.(jobPlace).Lost():
		default:
			t.Error("a trial on the lost host was not told")
		}
		g.Release()
		if got := names(j); !slices.Equal(got, []string{"d1"}) {
			t.Errorf("trials may run on %v, want d1", got)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		last := begin
		for i, at := range f.asked["d2"] {
			least, most := time.Duration(0), time.Duration(0)
			if i > 0 {
				most = min(time.Second<<i, time.Minute)
				least = most * 3 / 4
			}
			if d := at.Sub(last); d < least || d > most {
				t.Errorf("probe %d came after %v, want %v to %v", i, d, least, most)
			}
			last = at
		}
		if n := len(f.asked["d2"]); n < 10 || n > 20 {
			t.Errorf("%d probes within 10 minutes, want 10 to 20", n)
		}
		f.set("d2", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := names(j); !slices.Equal(got, []string{"d1", "d2"}) {
			t.Errorf("trials may run on %v, want d1 and d2, which is back", got)
		}
		if len(f.asked["d1"]) > 0 {
			t.Errorf("d1 was asked %d times, want never", len(f.asked["d1"]))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A host that answers and fails trials is back at once after the first, and later and later after
// more of them. Trials that run there go on.
func TestAHostThatFailsTrialsIsOfferedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, j := newFakeHosts(t, "d1 gpus=0\nd2 gpus=0\n")
		stop := keep(t, j, Resources{})
		g, err := j.Acquire(t.Context(), Resources{Hosts: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Release()
		away := make([]time.Duration, 10)
		for i := range away {
			begin := time.Now()
			j.suspect("d2", errors.New("no space left"))
			for synctest.Wait(); len(names(j)) < 2; synctest.Wait() {
				time.Sleep(10 * time.Millisecond)
			}
			away[i] = time.Since(begin)
		}
		if away[0] > 0 || away[1] < 1500*time.Millisecond || away[9] < 45*time.Second || away[9] > 61*time.Second {
			t.Errorf("the host was set aside for %v, want 0 after the first failure, and up to a minute after the last", away)
		}
		select {
		case <-g.(jobPlace).Lost():
			t.Error("a trial on a host that answers was ended")
		default:
		}
		time.Sleep(steadyAfter)
		j.suspect("d2", errors.New("no space left"))
		if synctest.Wait(); len(names(j)) < 2 {
			t.Error("after a long time without a failure the host is not back at once")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Before it begins a search says which hosts it waits for.
func TestASearchNamesHostsThatAnswerSlowly(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		j := &Jobs{HostFile: writeHosts(t, "d1 gpus=0\nd2 gpus=0\n"), Address: "127.0.0.1", Launch: self, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			ask: func(_ context.Context, h hosts.Host) (agent.Answer, error) {
				if h.Name == "d2" {
					time.Sleep(20 * time.Second)
				}
				return agent.Answer{CPUs: []int{0}}, nil
			}}
		if err := j.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if want := `msg="tune: waiting for hosts to answer" hosts=d2 "at most"=1m0s`; strings.Count(log.String(), want) != 1 {
			t.Errorf("the log is\n%s\nwant once: %s", log.String(), want)
		}
	})
}

// Hosts that cannot be reached when the search begins are taken up when they can.
func TestAHostThatComesLateIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, j := newFakeHosts(t, "d1 gpus=0\nd2 slots=1 gpus=0\n", "d2")
		stop := keep(t, j, Resources{})
		table, err := j.Nodes()
		if err != nil || !strings.Contains(table.String(), "set aside: connection refused") {
			t.Errorf("%v; the table does not say that d2 is set aside:\n%s", err, table.String())
		}
		f.set("d2", false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if u := j.nodes.Usage(); len(u) != 2 || u[1].Slots != 1 {
			t.Errorf("the nodes are %+v, want d2 among them with its one slot", u)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A search without a host for its trials waits, and ends with an error that names the hosts.
func TestASearchWithoutHostsWaitsAndEnds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		r     Resources
		act   func(f *fakeHosts, j *Jobs)
		after time.Duration // from the loss to the end; 0: it goes on
		want  string
	}{
		{"all are lost", Resources{}, func(*fakeHosts, *Jobs) {}, 10 * time.Minute, "no host for a trial for 10m0s: d1: connection refused; d2: connection refused"},
		{"a shorter time", Resources{}, func(_ *fakeHosts, j *Jobs) { j.HostTimeout = time.Minute }, time.Minute, "for 1m0s: d1: "},
		{"one comes back", Resources{}, func(f *fakeHosts, _ *Jobs) { time.Sleep(9 * time.Minute); f.set("d1", false) }, 0, ""},
		{"one is too few", Resources{Hosts: 2}, func(f *fakeHosts, _ *Jobs) { f.set("d1", false) }, 10 * time.Minute, "for 10m0s: d2: connection refused"},
		{"another is added", Resources{}, func(_ *fakeHosts, j *Jobs) {
			if err := j.Add(context.Background(), "d3 gpus=0"); err != nil {
				panic(err)
			}
		}, 0, ""},
		{"all are removed", Resources{}, func(_ *fakeHosts, j *Jobs) {
			for _, name := range []string{"d1", "d2"} {
				if err := j.Remove(name); err != nil {
					panic(err)
				}
			}
		}, 10 * time.Minute, "hosts were removed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, j := newFakeHosts(t, "d1 gpus=0\nd2 gpus=0\n")
				stop := keep(t, j, tc.r)
				f.set("d1", true)
				f.set("d2", true)
				begin := time.Now()
				j.suspect("d1", errors.New("connection lost"))
				j.suspect("d2", errors.New("connection lost"))
				synctest.Wait()
				tc.act(f, j)
				j.wakeKeeper() // its deadline may have changed
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				switch err := stop(); {
				case tc.after == 0 && err != nil:
					t.Errorf("after %v: %v, want the search to go on", time.Since(begin), err)
				case tc.after > 0 && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("got %v, want an error with %q", err, tc.want)
				}
			})
		})
	}
}

// A trial that still runs, on a host that was removed, is no search without hosts.
func TestATrialThatRunsKeepsTheSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, j := newFakeHosts(t, "d1 gpus=0\n")
		g, err := j.Acquire(t.Context(), Resources{})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Remove("d1"); err != nil {
			t.Fatal(err)
		}
		stop := keep(t, j, Resources{})
		time.Sleep(time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		g.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := j.keepHosts(ctx, Resources{}, 0); err == nil || !strings.Contains(err.Error(), "hosts were removed") {
			t.Errorf("without it: got %v, want an error", err)
		}
	})
}

// A host that was removed while a trial runs there is added again.
func TestARemovedHostIsAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, j := newFakeHosts(t, "d1 gpus=0\nd2 slots=1 gpus=0\n")
		g, err := j.Acquire(t.Context(), Resources{Hosts: 2})
		if err == nil {
			err = j.Remove("d2")
		}
		if err == nil {
			err = j.Add(t.Context(), "d2 slots=2 gpus=0")
		}
		if err != nil {
			t.Fatal(err)
		}
		if u := j.nodes.Usage()[1]; u.Leaving || u.Slots != 2 || u.UsedCPUs != 1 {
			t.Errorf("the host is %+v, want it with two slots, and the trial that runs there", u)
		}
		g.Release()
		if n := len(j.nodes.Usage()); n != 2 {
			t.Errorf("after the trial there are %d hosts, want 2", n)
		}
	})
}

// That a trial does not fit says which hosts are missing.
func TestATrialThatDoesNotFitNamesTheHostsThatAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, j := newFakeHosts(t, "d1 gpus=0\nd2 gpus=0\n", "d2")
		if err := j.Fits(Resources{Hosts: 2}); err == nil || !strings.Contains(err.Error(), "set aside: d2: connection refused") {
			t.Errorf("got %v, want an error that names d2", err)
		}
	})
}

// A host that answers, but cannot say which GPUs it has, stays set aside; trials that run there go
// on.
func TestTrialsGoOnWhereAHostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, j := newFakeHosts(t, "d1\n")
		stop := keep(t, j, Resources{})
		g, err := j.Acquire(t.Context(), Resources{})
		if err != nil {
			t.Fatal(err)
		}
		j.ask = func(context.Context, hosts.Host) (agent.Answer, error) {
			return agent.Answer{GPUErr: "the driver is gone"}, nil
		}
		j.suspect("d1", errors.New("connection lost"))
		synctest.Wait()
		select {
		case <-g.(jobPlace).Lost():
			t.Error("a trial was ended on a host that answers")
		default:
		}
		if got := names(j); len(got) > 0 {
			t.Errorf("trials may start on %v, want on none", got)
		}
		g.Release()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
