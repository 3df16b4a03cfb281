package nodes

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/tune/internal/slots"
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

// newFakeHosts finds hosts that answer, but for those that are down.
func newFakeHosts(t *testing.T, lines string, down ...string) (*fakeHosts, *Set) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeHosts{down: make(map[string]bool), asked: make(map[string][]time.Time), begun: time.Now()}
	for _, name := range down {
		f.down[name] = true
	}
	s, err := Find(t.Context(), Config{HostFile: writeHosts(t, lines), Launch: func() (string, error) { return self, nil }, Logger: slog.New(slog.DiscardHandler), Changed: func(string) {}, ask: f.ask})
	if err != nil {
		t.Fatal(err)
	}
	f.asked = make(map[string][]time.Time)
	return f, s
}

func writeHosts(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// trialOn is what a trial of so many hosts needs.
func trialOn(n int) slots.Request { return slots.Request{Hosts: n, Workers: 1, CPUs: 1} }

// keep runs Keep until stop, which returns its error.
func keep(t *testing.T, s *Set, need Need) (stop func() error) {
	need.Timeout = cmp.Or(need.Timeout, 10*time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Keep(ctx, need) }()
	synctest.Wait()
	return func() error { cancel(); return <-done }
}

func names(s *Set) (all []string) {
	for _, u := range s.Alloc.Usage() {
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
		f, s := newFakeHosts(t, "d1 gpus=0\nd2 gpus=0\n")
		stop := keep(t, s, Need{Trial: trialOn(1)})
		if len(f.asked) != 0 {
			t.Errorf("hosts that work were asked: %v", f.asked)
		}
		g, err := s.Alloc.Acquire(t.Context(), trialOn(2))
		if err != nil {
			t.Fatal(err)
		}
		f.set("d2", true)
		begin := time.Now()
		s.Suspect("d2", errors.New("connection lost"))
		synctest.Wait()
		select {
		case <-g.Lost():
		default:
			t.Error("a trial on the lost host was not told")
		}
		g.Release()
		if got := names(s); !slices.Equal(got, []string{"d1"}) {
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
		if got := names(s); !slices.Equal(got, []string{"d1", "d2"}) {
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
		_, s := newFakeHosts(t, "d1 gpus=0\nd2 gpus=0\n")
		stop := keep(t, s, Need{Trial: trialOn(1)})
		g, err := s.Alloc.Acquire(t.Context(), trialOn(2))
		if err != nil {
			t.Fatal(err)
		}
		defer g.Release()
		away := make([]time.Duration, 10)
		for i := range away {
			begin := time.Now()
			s.Suspect("d2", errors.New("no space left"))
			for synctest.Wait(); len(names(s)) < 2; synctest.Wait() {
				time.Sleep(10 * time.Millisecond)
			}
			away[i] = time.Since(begin)
		}
		if away[0] > 0 || away[1] < 1500*time.Millisecond || away[9] < 45*time.Second || away[9] > 61*time.Second {
			t.Errorf("the host was set aside for %v, want 0 after the first failure, and up to a minute after the last", away)
		}
		select {
		case <-g.Lost():
			t.Error("a trial on a host that answers was ended")
		default:
		}
		time.Sleep(steadyAfter)
		s.Suspect("d2", errors.New("no space left"))
		if synctest.Wait(); len(names(s)) < 2 {
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
		cfg := Config{HostFile: writeHosts(t, "d1 gpus=0\nd2 gpus=0\n"), Launch: func() (string, error) { return self, nil }, Logger: slog.New(slog.NewTextHandler(&log, nil)), Changed: func(string) {},
			ask: func(_ context.Context, h hosts.Host) (agent.Answer, error) {
				if h.Name == "d2" {
					time.Sleep(20 * time.Second)
				}
				return agent.Answer{CPUs: []int{0}}, nil
			}}
		if _, err := Find(t.Context(), cfg); err != nil {
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
		f, s := newFakeHosts(t, "d1 gpus=0\nd2 slots=1 gpus=0\n", "d2")
		stop := keep(t, s, Need{Trial: trialOn(1)})
		if table := s.Table(); !strings.Contains(table.String(), "set aside: connection refused") {
			t.Errorf("the table does not say that d2 is set aside:\n%s", table.String())
		}
		f.set("d2", false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if u := s.Alloc.Usage(); len(u) != 2 || u[1].Slots != 1 {
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
		name    string
		hosts   int
		timeout time.Duration
		act     func(f *fakeHosts, s *Set)
		after   time.Duration // from the loss to the end; 0: it goes on
		want    string
	}{
		{"all are lost", 1, 0, func(*fakeHosts, *Set) {}, 10 * time.Minute, "no host for a trial for 10m0s: d1: connection refused; d2: connection refused"},
		{"a shorter time", 1, time.Minute, func(*fakeHosts, *Set) {}, time.Minute, "for 1m0s: d1: "},
		{"one comes back", 1, 0, func(f *fakeHosts, _ *Set) { time.Sleep(9 * time.Minute); f.set("d1", false) }, 0, ""},
		{"one is too few", 2, 0, func(f *fakeHosts, _ *Set) { f.set("d1", false) }, 10 * time.Minute, "for 10m0s: d2: connection refused"},
		{"another is added", 1, 0, func(_ *fakeHosts, s *Set) {
			if err := s.Add(context.Background(), "d3 gpus=0"); err != nil {
				panic(err)
			}
		}, 0, ""},
		{"all are removed", 1, 0, func(_ *fakeHosts, s *Set) {
			for _, name := range []string{"d1", "d2"} {
				if err := s.Remove(name); err != nil {
					panic(err)
				}
			}
		}, 10 * time.Minute, "hosts were removed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s := newFakeHosts(t, "d1 gpus=0\nd2 gpus=0\n")
				stop := keep(t, s, Need{Trial: trialOn(max(tc.hosts, 1)), Timeout: tc.timeout})
				f.set("d1", true)
				f.set("d2", true)
				begin := time.Now()
				s.Suspect("d1", errors.New("connection lost"))
				s.Suspect("d2", errors.New("connection lost"))
				synctest.Wait()
				tc.act(f, s)
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
		_, s := newFakeHosts(t, "d1 gpus=0\n")
		g, err := s.Alloc.Acquire(t.Context(), trialOn(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Remove("d1"); err != nil {
			t.Fatal(err)
		}
		stop := keep(t, s, Need{Trial: trialOn(1)})
		time.Sleep(time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		g.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Keep(ctx, Need{Trial: trialOn(1), Timeout: 10 * time.Minute}); err == nil || !strings.Contains(err.Error(), "hosts were removed") {
			t.Errorf("without it: got %v, want an error", err)
		}
	})
}

// A host that was removed while a trial runs there is added again.
func TestARemovedHostIsAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newFakeHosts(t, "d1 gpus=0\nd2 slots=1 gpus=0\n")
		g, err := s.Alloc.Acquire(t.Context(), trialOn(2))
		if err == nil {
			err = s.Remove("d2")
		}
		if err == nil {
			err = s.Add(t.Context(), "d2 slots=2 gpus=0")
		}
		if err != nil {
			t.Fatal(err)
		}
		if u := s.Alloc.Usage()[1]; u.Leaving || u.Slots != 2 || u.UsedCPUs != 1 {
			t.Errorf("the host is %+v, want it with two slots, and the trial that runs there", u)
		}
		g.Release()
		if n := len(s.Alloc.Usage()); n != 2 {
			t.Errorf("after the trial there are %d hosts, want 2", n)
		}
	})
}

// That a trial does not fit says which hosts are missing.
func TestATrialThatDoesNotFitNamesTheHostsThatAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newFakeHosts(t, "d1 gpus=0\nd2 gpus=0\n", "d2")
		if err := s.FitsEver(trialOn(2)); err == nil || !strings.Contains(err.Error(), "set aside: d2: connection refused") {
			t.Errorf("got %v, want an error that names d2", err)
		}
	})
}

// A host that answers, but cannot say which GPUs it has, stays set aside; trials that run there go
// on.
func TestTrialsGoOnWhereAHostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newFakeHosts(t, "d1\n")
		stop := keep(t, s, Need{Trial: trialOn(1)})
		g, err := s.Alloc.Acquire(t.Context(), trialOn(1))
		if err != nil {
			t.Fatal(err)
		}
		s.hosts.ask = func(context.Context, hosts.Host) (agent.Answer, error) {
			return agent.Answer{GPUErr: "the driver is gone"}, nil
		}
		s.Suspect("d1", errors.New("connection lost"))
		synctest.Wait()
		select {
		case <-g.Lost():
			t.Error("a trial was ended on a host that answers")
		default:
		}
		if got := names(s); len(got) > 0 {
			t.Errorf("trials may start on %v, want on none", got)
		}
		g.Release()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
