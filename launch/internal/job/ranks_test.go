package job

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A line of output carries the rank that its worker has, also after a change has given it another
// one. A worker that joins has a number that is nobody's rank until it has one. Its PID may be that
// of a shell: the number that launch gave it counts.
func TestOutputCarriesTheRankAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		var nodes atomic.Value
		nodes.Store("")
		s.cfg.Elastic.Control = func(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error) {
			var q control.Request
			if err := json.Unmarshal(request, &q); err != nil || q.Op != "status" {
				return f.control(ctx, addr, credentials, request)
			}
			return []byte(`{"phase":"running","nodes":[` + nodes.Load().(string) + `]}`), nil
		}
		go func() {
			time.Sleep(2500 * time.Millisecond)
			all := fmt.Sprintf(`{"node":1,"role":"server","rank":0,"host":"localhost","pid":100,"process":2,"state":"counts"},{"node":3,"role":"worker","rank":0,"host":"localhost","pid":7777,"process":%d,"state":"counts"}`, 4)
			nodes.Store(all)
			f.tell(control.Event{Action: control.Lost, Host: "localhost", Process: 3})
			f.tell(control.Event{Action: control.Ranks})
			time.Sleep(3 * time.Second)
			nodes.Store(all + fmt.Sprintf(`,{"node":4,"role":"worker","rank":1,"host":"localhost","pid":7777,"process":%d,"state":"counts"}`, 5))
			f.tell(control.Event{Action: control.Added, Host: "localhost", Role: roleWorker, Process: 5})
		}()
		res, err := s.run(t, func(p *proc) {
			if p.name == "worker 0" {
				p.after(2*time.Second, 1)
				return
			}
			for begin := time.Now(); p.env["DMLC_ROLE"] == "worker" && time.Since(begin) < 10*time.Second; time.Sleep(time.Second) {
				fmt.Fprintf(p.out.Stdout, "%s since %v\n", p.name, time.Since(begin))
			}
			p.after(time.Minute, 0)
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		for _, want := range []string{
			"worker 1  | worker 1 since 1s\n", "worker 0  | worker 1 since 3s\n", "worker 0  | worker 1 since 9s\n",
			"worker 2  | worker 2 since 1s\n", "worker 1  | worker 2 since 4s\n", "worker     0     localhost  101  exit 0\n", "worker     1     localhost  102  exit 0\n",
			"worker     0     localhost  100  exit 1, the job went on",
		} {
			if got := strings.ReplaceAll(s.out.String(), "exit 0      ", "exit 0\n"); !strings.Contains(got, want) {
				t.Errorf("the output has no %q:\n%s", want, s.out.String())
			}
		}
	})
}

// A host that never was in the job does not leave it.
func TestOnlyWhoJoinedLeaves(t *testing.T) {
	for _, joined := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			go func() {
				time.Sleep(5 * time.Second)
				f.happen(control.AddQueued, "127.0.0.2", "")
				time.Sleep(5 * time.Second)
				if joined {
					f.happen(control.Added, "127.0.0.2", "")
				} else {
					f.happen(control.HostFailed, "127.0.0.2", "no room")
				}
				time.Sleep(5 * time.Second)
				f.happen(control.RemovalQueued, "127.0.0.2", "")
				f.happen(control.Removed, "127.0.0.2", "")
			}()
			train := obedient(time.Minute)
			var log strings.Builder
			_, err := s.runLogged(t, slog.New(slog.NewTextHandler(&log, nil)), func(p *proc) {
				if p.env["DMLC_NODE_HOST"] == "127.0.0.2" {
					p.after(11*time.Second, 0)
					return
				}
				train(p)
			})
			if err != nil {
				t.Error(err)
			}
			leaves, left := "host 127.0.0.2 leaves the job at its next step", "host 127.0.0.2 has left the job"
			if !joined {
				left = "host 127.0.0.2 was removed; it had no worker in the job"
			}
			if strings.Contains(log.String(), leaves) != joined || !strings.Contains(log.String(), left) || !joined && strings.Contains(log.String(), "has left") {
				t.Errorf("joined %t: the log is\n%s", joined, log.String())
			}
		})
	}
}

// A process of a job has a number that no other one ever has, also where it is started again in the
// place of one that ended.
func TestProcessNumbersAreNeverUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		var mu sync.Mutex
		whose := make(map[uint32]string)
		train := obedient(time.Minute)
		ends := map[string]int{}
		res, err := s.run(t, func(p *proc) {
			mu.Lock()
			if other := whose[p.process()]; other != "" || p.process() == 0 {
				t.Errorf("%s has the number %d; %q had it before", p.name, p.process(), other)
			}
			whose[p.process()] = p.name
			ends[p.name]++
			first := ends[p.name] == 1
			mu.Unlock()
			if first && (p.name == "scheduler" || p.name == "worker 1") {
				p.after(10*time.Second, 3)
				return
			}
			train(p)
		})
		if err != nil || res.Code != 0 || len(whose) != 6 {
			t.Errorf("Run: code %d, %v, numbers %v; want 0 and 6 of them", res.Code, err, whose)
		}
		for _, n := range res.Nodes {
			if name := whose[n.process]; name == "" {
				t.Errorf("%s has the number %d, which no process found in its environment", n.Name(), n.process)
			}
		}
	})
}
