package job

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A worker that is still joining when all others are done is not waited for.
func TestJobEndsWithItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		f.stuck = func(control.ObservedProcess) bool { return true }
		s.elastic(t, f)
		go func() { time.Sleep(5 * time.Second); s.edit(t, "localhost\n127.0.0.2\n127.0.0.3\n") }()
		begin := time.Now()
		train := obedient(time.Minute)
		res, err := s.run(t, func(p *proc) {
			if p.env["DMLC_NODE_HOST"] != "localhost" {
				p.after(forEver, 0)
				return
			}
			train(p)
		})
		if took := time.Since(begin); err != nil || res.Code != 0 || took > 70*time.Second {
			t.Errorf("Run: code %d, %v, after %s, want 0 after a minute", res.Code, err, took)
		}
	})
}

func TestInterruptEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup{interrupts: make(chan os.Signal, 2)}
		f := newFakeScheduler()
		f.stuck = func(control.ObservedProcess) bool { return true }
		s.elastic(t, f)
		s.cfg.Elastic.PrepareData = []string{"fetch"}
		go func() {
			time.Sleep(5 * time.Second)
			s.edit(t, "localhost\n127.0.0.2\n")
			time.Sleep(5 * time.Second)
			s.interrupts <- syscall.SIGINT
		}()
		begin := time.Now()
		res, err := s.run(t, func(p *proc) { p.after(forEver, 0) })
		if took := time.Since(begin); err != nil || res.Code != 130 || took > 20*time.Second {
			t.Errorf("Run: code %d, %v, after %s, want 130 after some 10 s", res.Code, err, took)
		}
		if p := s.local.procs["prepare 127.0.0.2"]; p == nil || p.exit.Signal == 0 {
			t.Errorf("prepare-data was not ended: %+v", p)
		}
	})
}

// The scheduler is told of workers that are done, also of the last one, with which the job ends:
// they may have been cut off from it.
func TestSchedulerIsToldOfWorkersThatAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		res, err := s.run(t, obedient(time.Minute))
		if err != nil || res.Code != 0 {
			t.Fatalf("Run: code %d, %v, want 0", res.Code, err)
		}
		synctest.Wait()
		for _, n := range res.Nodes {
			if told := f.told(n.process); n.Role == roleWorker && told != "exit 0" {
				t.Errorf("the scheduler was told %q of %s, want exit 0", told, n.Name())
			}
		}
	})
}

func TestJobWithoutAnyWorkerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		s.elastic(t, newFakeScheduler())
		s.cfg.Elastic.Rejoin = 0
		begin := time.Now()
		res, err := s.run(t, func(p *proc) {
			if p.env["DMLC_ROLE"] == "worker" {
				p.after(time.Minute, 5)
			} else {
				p.after(forEver, 0)
			}
		})
		if took := time.Since(begin); err != nil || res.Code != 5 || took > 2*time.Minute {
			t.Errorf("Run: code %d, %v, after %s, want 5 soon after a minute", res.Code, err, took)
		}
		if want := "launch: the job failed: no worker is left\n"; !strings.HasSuffix(s.out.String(), want) {
			t.Errorf("the output does not end in %q:\n%s", want, s.out.String())
		}
	})
}
