package job

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/identity"
)

func TestJobEndsWellWhenItsWorkersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		begin := time.Now()
		res, err := s.run(t, func(p *proc) {
			switch p.env["DMLC_ROLE"] {
			case "worker":
				p.after(time.Minute, 0)
			case "server":
				p.after(time.Minute+time.Second, 0)
			default:
				p.after(forEver, 0) // a worker without a store never tells it that all is over
			}
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if took := time.Since(begin); took != time.Minute+3*time.Second {
			t.Errorf("took %s, want the minute and 3 s for the scheduler to end by itself", took)
		}
		if want := []string{"scheduler 15"}; !slices.Equal(s.log, want) {
			t.Errorf("signals %q, want %q", s.log, want)
		}
		if !strings.Contains(s.out.String(), "signal 15 (terminated), as asked") {
			t.Errorf("the table does not tell of the stop:\n%s", s.out.String())
		}
	})
}

func TestEnvironmentNamesTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup{cfg: Config{Env: []string{"DMLC_ROLE=x", "A=1"}, WorkerEnv: []string{"A=2"}, Times: Times{StartTimeout: time.Minute}}}
		if _, err := s.run(t, func(p *proc) { p.after(time.Second, 0) }); err != nil {
			t.Fatal(err)
		}
		w := s.local.procs["worker 1"].env
		for name, want := range map[string]int{"worker 0": 2, "worker 1": 2, "server 0": 1, "scheduler": 1} {
			if got := s.local.procs[name].sharers; got != want {
				t.Errorf("%s: got %d sharers of the cores, want %d", name, got, want)
			}
		}
		for name, want := range map[string]string{
			"DMLC_ROLE": "worker", "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "4711", "DMLC_NUM_WORKER": "2",
			"DMLC_NUM_SERVER": "1", "DMLC_NODE_HOST": "localhost", "DMLC_TASK_ID": "1", "PARAGON_RANK": "1", "PARAGON_LISTEN": "127.0.0.1:0",
			"A": "2", "PARAGON_START_TIMEOUT": "1m0s",
		} {
			if w[name] != want {
				t.Errorf("worker 1 has %s=%s, want %s", name, w[name], want)
			}
		}
		if len(w["PARAGON_JOB"]) != 16 || len(w["PARAGON_SECRET"]) != 64 {
			t.Errorf("job %q and secret %q, want 16 and 64 digits", w["PARAGON_JOB"], w["PARAGON_SECRET"])
		}
		sched := s.local.procs["scheduler"].env
		if _, told := w["PARAGON_HOSTS"]; told || sched["PARAGON_HOSTS"] != "server/0/localhost,worker/0/localhost,worker/1/localhost" {
			t.Errorf("the scheduler has PARAGON_HOSTS=%s, and worker 1 has it: %t; want all places for the scheduler alone", sched["PARAGON_HOSTS"], told)
		}
		if sched["DMLC_PS_ROOT_PORT"] != "0" || sched["A"] != "1" || sched["PARAGON_SECRET"] != w["PARAGON_SECRET"] {
			t.Errorf("scheduler has port %s, A=%s", sched["DMLC_PS_ROOT_PORT"], sched["A"])
		}
	})
}

func TestEveryProcessGetsACertificateOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, secure := range []bool{true, false} {
			s := setup{cfg: Config{Env: []string{"PARAGON_IDENTITY=of another job"}, TLS: secure}}
			if _, err := s.run(t, func(p *proc) { p.after(time.Second, 0) }); err != nil {
				t.Fatal(err)
			}
			seen := make(map[string]bool)
			for name, p := range s.local.procs {
				text := p.env["PARAGON_IDENTITY"]
				if !secure {
					if text != "" {
						t.Errorf("%s has an identity without TLS", name)
					}
					continue
				}
				id, err := identity.Decode(text)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if id.Role() != p.env["DMLC_ROLE"] || id.Name() != name || id.Job() != p.env["PARAGON_JOB"] || seen[text] {
					t.Errorf("%s: got the identity of %v, role %s, seen before: %t", name, id, id.Role(), seen[text])
				}
				seen[text] = true
			}
		}
	})
}

func TestFirstFailureByTimeDecidesTheExitCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 1":
				p.after(10*time.Second, 3)
			case "server 0": // notices the worker's death
				p.after(10*time.Second+100*time.Millisecond, 1)
			default:
				p.after(forEver, 0)
			}
		})
		if err != nil || res.Code != 3 {
			t.Errorf("Run: code %d, %v, want 3", res.Code, err)
		}
		if want := []string{"worker 0 15", "scheduler 15"}; !slices.Equal(s.log, want) {
			t.Errorf("signals %q, want %q", s.log, want)
		}
	})
}

// The last line says what happened first: why the job failed as far as the scheduler knew by then,
// else who failed, and how.
func TestLastLineTellsTheCause(t *testing.T) {
	lost := failedLine("worker", 1, 4, control.NodeLost, control.Cause{Kind: control.CauseSilence, SilenceNS: int64(2 * time.Second)})
	for _, tc := range []struct {
		name   string
		script func(p *proc)
		want   string
		code   int
	}{
		{"a worker fails", func(p *proc) {
			switch p.name {
			case "worker 1":
				io.WriteString(p.out.Stderr, "train: no data\n")
				p.after(time.Minute, 3)
			case "scheduler": // notices
				time.Sleep(time.Minute + time.Millisecond)
				fmt.Fprintln(p.out.Report, lost)
				p.exit.Code = 1
			default:
				p.after(forEver, 0)
			}
		}, "launch: worker 1 on localhost failed: exit 3: train: no data", 3},
		{"a worker gives up, and the servers end before it", func(p *proc) {
			switch p.name {
			case "worker 1":
				p.after(time.Minute+20*time.Millisecond, 5)
			case "server 0":
				p.after(time.Minute+time.Millisecond, 1)
			case "scheduler":
				time.Sleep(time.Minute)
				fmt.Fprintln(p.out.Report, failedLine("worker", 1, 4, control.NodeError, control.Cause{Kind: control.CauseError, Text: "the disk is full"}))
				p.after(forEver, 0)
			default:
				p.after(forEver, 0)
			}
		}, "launch: the job failed: worker 1 on localhost: the disk is full", 5},
		{"a worker is silent", func(p *proc) {
			switch p.name {
			case "worker 0":
				p.after(time.Minute+time.Millisecond, 1)
			case "scheduler":
				time.Sleep(time.Minute)
				fmt.Fprintln(p.out.Report, lost)
				p.after(forEver, 0)
			default:
				p.after(forEver, 0)
			}
		}, "launch: the job failed: worker 1 on localhost lost: no heartbeat for 2 s", 1},
		{"a worker ended without a line of output", func(p *proc) {
			switch p.name {
			case "worker 0":
				p.after(time.Minute+time.Millisecond, 1)
			case "worker 1":
			case "scheduler":
				time.Sleep(time.Minute)
				fmt.Fprintln(p.out.Report, lost)
				p.after(forEver, 0)
			default:
				p.after(forEver, 0)
			}
		}, "launch: the job failed: worker 1 on localhost ended with exit 0 without closing its store, while others trained; call Close before the program ends", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s setup
				res, err := s.run(t, tc.script)
				if err != nil || res.Code != tc.code {
					t.Errorf("Run: code %d, %v, want %d", res.Code, err, tc.code)
				}
				lines := strings.Split(strings.TrimSpace(s.out.String()), "\n")
				last := lines[len(lines)-1]
				if !strings.HasPrefix(last, "launch: ") {
					last = ""
				}
				if last != tc.want {
					t.Errorf("last line %q, want %q", last, tc.want)
				}
			})
		})
	}
}

func TestServersOutliveWorkersThatSaveTheirState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup{cfg: Config{Times: Times{StopTimeout: time.Minute}}, interrupts: make(chan os.Signal, 2)}
		go func() { time.Sleep(time.Second); s.interrupts <- syscall.SIGINT }()
		begin := time.Now()
		var serverEnd, workerEnd time.Duration
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 0":
				<-p.signals
				time.Sleep(30 * time.Second)
				workerEnd = time.Since(begin)
			case "server 0":
				<-p.signals
				serverEnd = time.Since(begin)
			default:
				p.after(forEver, 0)
			}
		})
		if err != nil || res.Code != 130 {
			t.Errorf("Run: code %d, %v, want 130", res.Code, err)
		}
		if workerEnd != 31*time.Second || serverEnd != workerEnd {
			t.Errorf("worker 0 ended at %s, server 0 at %s, want both at 31 s", workerEnd, serverEnd)
		}
	})
}

func TestStubbornProcessesAreKilledInTime(t *testing.T) {
	for _, interrupts := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := setup{interrupts: make(chan os.Signal, 2)}
			go func() {
				time.Sleep(time.Minute)
				for range interrupts {
					s.interrupts <- syscall.SIGTERM
				}
			}()
			begin := time.Now()
			res, err := s.run(t, (*proc).stubborn)
			took := time.Since(begin) - time.Minute
			if err != nil || res.Code != 143 {
				t.Errorf("Run: code %d, %v, want 143", res.Code, err)
			}
			if limit := []time.Duration{0, 5 * time.Second, 0}[interrupts]; took > limit {
				t.Errorf("%d signals: took %s, want at most %s", interrupts, took, limit)
			}
		})
	}
}
