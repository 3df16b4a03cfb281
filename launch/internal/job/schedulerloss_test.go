package job

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

func TestSchedulerThatDiesIsStartedAgainWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		s.cfg.MetricsListen = ":0"
		var log strings.Builder
		s.logger = slog.New(slog.NewTextHandler(&log, nil))
		begin := time.Now()
		train := obedient(time.Minute)
		var again []time.Duration
		res, err := s.run(t, func(p *proc) {
			if p.name != "scheduler" {
				train(p)
				return
			}
			if len(again) > 0 && p.env["DMLC_PS_ROOT_PORT"] != "4711" {
				t.Errorf("the scheduler was started again for port %s, want 4711", p.env["DMLC_PS_ROOT_PORT"])
			}
			metrics := p.env["PARAGON_METRICS_LISTEN"]
			if want := map[bool]string{true: ":0", false: "[::]:4712"}[len(again) == 0]; metrics != want || p.env["PARAGON_RESTARTS"] != "0" {
				t.Errorf("start %d of the scheduler: it serves metrics on %q after %q restarts of the job, want %q after 0", len(again), metrics, p.env["PARAGON_RESTARTS"], want)
			}
			fmt.Fprintln(p.out.Report, reportLine(control.Report{Metrics: "[::]:4712"}))
			if again = append(again, time.Since(begin)); len(again) < 3 {
				p.after(10*time.Second, 0)
				p.exit.Signal = syscall.SIGKILL
				return
			}
			train(p)
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if want := []time.Duration{0, 10 * time.Second, 20*time.Second + 250*time.Millisecond}; !slices.Equal(again, want) {
			t.Errorf("the scheduler was started at %v, want %v", again, want)
		}
		if n := strings.Count(log.String(), "metrics for Prometheus: http://127.0.0.1:4712/metrics"); n != 1 {
			t.Errorf("the log has the address of the metrics %d times, want once:\n%s", n, log.String())
		}
		if n := strings.Count(s.out.String(), "signal 9 (killed), started again"); n != 2 {
			t.Errorf("the table tells of %d schedulers that were started again, want 2:\n%s", n, s.out.String())
		}
	})
}

// Requests that come while the scheduler is away are made when it is back.
func TestEditWhileTheSchedulerIsAwayIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		set := func(away bool) { f.mu.Lock(); f.away = away; f.mu.Unlock() }
		go func() {
			time.Sleep(5 * time.Second)
			set(true)
			s.edit(t, "localhost\n127.0.0.2\n")
			time.Sleep(20 * time.Second)
			set(false)
		}()
		if _, err := s.run(t, obedient(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, log := s.files(t); log != "0 ADDED 127.0.0.2\n" {
			t.Errorf("host_worker_log has %q", log)
		}
	})
}

func TestSchedulerWithoutStateIsNotStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		s.elastic(t, newFakeScheduler())
		s.cfg.Elastic.State = ""
		res, err := s.run(t, func(p *proc) {
			if p.name == "scheduler" {
				p.after(time.Minute, 7)
			} else {
				p.after(forEver, 0)
			}
		})
		if err != nil || res.Code != 7 {
			t.Errorf("Run: code %d, %v, want 7", res.Code, err)
		}
	})
}
