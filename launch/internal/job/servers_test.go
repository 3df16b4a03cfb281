package job

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

func TestLostServerIsReplacedWhereThereAreBackups(t *testing.T) {
	for _, backups := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			s.cfg.Elastic.Backups = backups
			f.later(5*time.Second, func(m *membership, now time.Time) { m.people(now, control.Request{Op: control.OpAddServer}) })
			train, servers := obedient(time.Minute), 0
			res, err := s.run(t, func(p *proc) {
				if p.name == "server 0" {
					if servers++; servers == 1 {
						p.after(10*time.Second, 9)
						return
					}
					if p.env["PARAGON_JOIN"] != "1" || p.env["PARAGON_RANK"] != "0" {
						t.Errorf("the new server has PARAGON_JOIN=%q and PARAGON_RANK=%q, want 1 and 0", p.env["PARAGON_JOIN"], p.env["PARAGON_RANK"])
					}
				}
				train(p)
			})
			wantCode, wantServers := 0, 2
			if backups == 0 {
				wantCode, wantServers = 9, 1
			}
			if err != nil || res.Code != wantCode || servers != wantServers {
				t.Errorf("%d backups: code %d, %v, %d servers, want code %d, %d servers", backups, res.Code, err, servers, wantCode, wantServers)
			}
		})
	}
}

// The launcher starts servers that the scheduler wants, tells of those that it cannot start, and
// lets those go that were removed.
func TestServersAreStartedAndLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		s.cfg.Elastic.Backups = 1
		train, got := obedient(time.Minute), map[string]int{}
		var log bytes.Buffer
		s.logger = slog.New(slog.NewTextHandler(&log, nil))
		f.later(5*time.Second, func(m *membership, now time.Time) {
			m.people(now, control.Request{Op: control.OpAddServer})
			m.people(now, control.Request{Op: control.OpAddServer, Host: "d7"}) // which is not this machine
		})
		f.later(16*time.Second, func(m *membership, now time.Time) {
			m.people(now, control.Request{Op: control.OpRemoveServer, Rank: 0})
		})
		s.cfg.Elastic.Here = func(h hosts.Host) bool { return h.Name == "localhost" }
		res, err := s.run(t, func(p *proc) {
			p.m.mu.Lock()
			got[p.name]++
			p.m.mu.Unlock()
			switch p.name {
			case "server 0":
				p.after(17*time.Second, 0)
				return
			case "server 1":
				if p.env["PARAGON_JOIN"] != "1" || p.env["PARAGON_RANK"] != "1" || p.env["DMLC_NUM_SERVER"] != "1" {
					t.Errorf("the new server has PARAGON_JOIN=%q, PARAGON_RANK=%q and DMLC_NUM_SERVER=%q, want 1, 1 and 1",
						p.env["PARAGON_JOIN"], p.env["PARAGON_RANK"], p.env["DMLC_NUM_SERVER"])
				}
			}
			train(p)
		})
		if err != nil || res.Code != 0 || got["server 0"] != 1 || got["server 1"] != 1 || got["server 2"] != 0 {
			t.Errorf("Run: code %d, %v, servers started: %v; want 0, and servers 0 and 1 once", res.Code, err, got)
		}
		for _, n := range res.Nodes {
			if n.Name() == "server 0" && n.fate.code != control.FateRemoved {
				t.Errorf("server 0: got %q, want removed", n.fate.code)
			}
		}
		if want := "server 2 on d7 could not be added: host d7 is not this machine"; !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, &log)
		}
	})
}

// A server that the scheduler no longer counts is replaced, also when its process does not end.
// Workers beside it have nothing to do with that, even if there is but one.
func TestStaleServerIsReplacedAndWorkersStay(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			s.cfg.Elastic.Backups = 1
			var log bytes.Buffer
			s.logger = slog.New(slog.NewTextHandler(&log, nil))
			begin := time.Now()
			train, servers, took := obedient(time.Minute), 0, time.Duration(0)
			var workers atomic.Int32
			f.later(5*time.Second, func(m *membership, now time.Time) { m.people(now, control.Request{Op: control.OpAddServer}) })
			f.fails(12*time.Second, 2, "no heartbeat for 10 s")
			res, err := s.run(t, func(p *proc) {
				switch {
				case p.name == "server 0":
					if servers++; servers == 1 {
						p.stubborn()
						took = time.Since(begin)
						return
					}
				case p.name == "worker 1" && alone:
					p.after(time.Second, 0)
					return
				case p.env["DMLC_ROLE"] == "worker":
					workers.Add(1)
				}
				train(p)
			})
			if err != nil || res.Code != 0 || servers != 2 || took != 12*time.Second+lostEndTime {
				t.Errorf("Run: code %d, %v, %d servers, the first ended after %s; want 0, 2 servers, %s", res.Code, err, servers, took, 12*time.Second+lostEndTime)
			}
			if got, want := workers.Load(), map[bool]int32{false: 2, true: 1}[alone]; got != want {
				t.Errorf("%d workers were started, want %d", got, want)
			}
			if want := "INFO msg=\"server 0 on localhost left: no heartbeat for 10 s\""; !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, log.String())
			}
		})
	}
}
