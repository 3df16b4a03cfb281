package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/hosts"
	"github.com/paragon-train/paragon/internal/identity"
	"github.com/paragon-train/paragon/internal/lines"
	"github.com/paragon-train/paragon/internal/process"
)

// A fake machine runs scripts: what a process does from its start on, and when it is signalled.
type fake struct {
	host              string
	address, launcher string
	script            func(p *proc)
	forming           bool // the scheduler does not say that the job is complete, and the script says where it listens

	mu    sync.Mutex
	procs map[string]*proc
	log   *[]string // signals, in order
	gone  chan struct{}
	shut  bool
}

type proc struct {
	name    string
	sharers int
	env     map[string]string
	out     process.Output
	signals chan syscall.Signal
	done    chan struct{}
	start   time.Time
	exit    process.Exit
	m       *fake
}

func (m *fake) Address() string         { return m.address }
func (m *fake) LauncherAddress() string { return m.launcher }
func (m *fake) Gone() <-chan struct{}   { return m.gone }

func (m *fake) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shut = true
	for _, p := range m.procs {
		select {
		case <-p.done:
		default:
			p.signals <- syscall.SIGKILL
		}
	}
	return nil
}

func (m *fake) Start(_ context.Context, spec process.Spec, out process.Output) (process.Handle, error) {
	p := &proc{name: spec.Name, sharers: spec.Sharers, env: map[string]string{}, out: out, signals: make(chan syscall.Signal, 16), done: make(chan struct{}), start: time.Now(), m: m}
	for _, v := range spec.Env {
		name, value, _ := strings.Cut(v, "=")
		p.env[name] = value
	}
	if spec.Self == (p.env["DMLC_ROLE"] == "worker" || p.env["DMLC_ROLE"] == "") {
		return nil, fmt.Errorf("%s: Self is %t", spec.Name, spec.Self)
	}
	if p.env["REFUSE"] == spec.Name {
		return nil, errors.New("refused to start " + spec.Name)
	}
	m.mu.Lock()
	m.procs[spec.Name] = p
	m.mu.Unlock()
	go func() {
		if spec.Report && !m.forming {
			io.WriteString(out.Report, m.address+":4711\n"+runningLine+"\n")
		}
		m.script(p)
		p.exit.Elapsed = time.Since(p.start)
		close(p.done)
	}()
	return p, nil
}

// PID is 100, and one more for each rank of a worker.
func (p *proc) PID() int {
	if p.env["DMLC_ROLE"] != "worker" {
		return 100
	}
	rank, _ := strconv.Atoi(p.env["DMLC_TASK_ID"])
	return 100 + rank
}

// process is the number that launch gave it.
func (p *proc) process() uint32 {
	n, err := strconv.ParseUint(p.env["PARAGON_PROCESS"], 10, 32)
	if err != nil {
		panic(err)
	}
	return uint32(n)
}

func (p *proc) Done() <-chan struct{} { return p.done }
func (p *proc) Exit() process.Exit    { <-p.done; return p.exit }

func (p *proc) Signal(s syscall.Signal) {
	p.m.mu.Lock()
	*p.m.log = append(*p.m.log, fmt.Sprintf("%s %d", p.name, s))
	p.m.mu.Unlock()
	p.signals <- s
}

// after ends the process with a code after a time, or as a signal says.
func (p *proc) after(d time.Duration, code int) {
	select {
	case <-time.After(d):
		p.exit.Code = code
	case s := <-p.signals:
		p.exit.Signal = s
	}
}

// stubborn ignores all but SIGKILL.
func (p *proc) stubborn() {
	for s := range p.signals {
		if s == syscall.SIGKILL {
			p.exit.Signal = s
			return
		}
	}
}

const forEver = 1000 * time.Hour

type setup struct {
	cfg        Config
	log        []string
	out        bytes.Buffer
	interrupts chan os.Signal
	local      *fake
	logger     *slog.Logger
	forming    bool
	place      []hosts.Host        // of workers; nil: two on localhost
	servers    []hosts.Host        // nil: one, where the first worker is
	lostAt     time.Duration       // after its start the connection to the machine is gone; 0: never
	machine    func(*fake) Machine // makes another one of it; nil: it is the machine
}

// run runs a job of two workers and a server, all on one fake machine, on fake time.
func (s *setup) run(t *testing.T, script func(p *proc)) (Result, error) {
	t.Helper()
	s.local = &fake{address: "127.0.0.1", forming: s.forming, script: script, procs: map[string]*proc{}, log: &s.log}
	if s.local.gone = make(chan struct{}); s.lostAt > 0 {
		time.AfterFunc(s.lostAt-time.Nanosecond, func() { close(s.local.gone) })
	}
	s.cfg.Workers, s.cfg.Servers = []hosts.Host{hosts.Local, hosts.Local}, []hosts.Host{hosts.Local}
	if s.place != nil {
		s.cfg.Workers, s.cfg.Servers = s.place, s.place[:1]
	}
	if s.servers != nil {
		s.cfg.Servers = s.servers
	}
	s.cfg.Command, s.cfg.Role = []string{"train"}, []string{"role"}
	s.cfg.Local = func(context.Context) (Machine, error) {
		if s.machine != nil {
			return s.machine(s.local), nil
		}
		return s.local, nil
	}
	if s.interrupts != nil {
		s.cfg.Interrupts = s.interrupts
	}
	s.cfg.Output = lines.New(lines.Config{Stdout: &s.out, Stderr: &s.out})
	if s.cfg.Logger = s.logger; s.logger == nil {
		s.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return Run(t.Context(), s.cfg)
}

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
		s := setup{cfg: Config{Env: []string{"DMLC_ROLE=x", "A=1"}, WorkerEnv: []string{"A=2"}, StartTimeout: time.Minute}}
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

// The last line says what happened first: why the job failed as far as the scheduler knew by then, else who failed, and how.
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
		{"a worker ended without a word", func(p *proc) {
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
		s := setup{cfg: Config{StopTimeout: time.Minute}, interrupts: make(chan os.Signal, 2)}
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

func TestJobThatCannotStartLeavesNothing(t *testing.T) {
	for _, who := range []string{"scheduler", "server 0", "worker 1"} {
		synctest.Test(t, func(t *testing.T) {
			s := setup{cfg: Config{Env: []string{"REFUSE=" + who}}}
			res, err := s.run(t, func(p *proc) { p.after(forEver, 0) })
			if !errors.Is(err, ErrStart) || !strings.Contains(err.Error(), "refused to start "+who) || res.Code != 1 {
				t.Errorf("%s: code %d, error %v", who, res.Code, err)
			}
			if !s.local.shut {
				t.Errorf("%s: the machine was not closed", who)
			}
		})
	}
}

func TestSchedulerThatDiesBeforeItListensIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup{}
		s.cfg.HostIP = "127.0.0.1"
		_, err := s.runSilent(t)
		if err == nil || !strings.Contains(err.Error(), "scheduler on localhost ended before it listened: exit 7") {
			t.Errorf("error %v", err)
		}
	})
}

// runSilent runs a job whose scheduler ends without a report.
func (s *setup) runSilent(t *testing.T) (Result, error) {
	s.cfg.Local = nil
	m := &silent{fake{address: "127.0.0.1", procs: map[string]*proc{}, log: &s.log, script: func(p *proc) { p.exit.Code = 7 }}}
	s.cfg.Workers, s.cfg.Command = []hosts.Host{hosts.Local}, []string{"train"}
	s.cfg.Local = func(context.Context) (Machine, error) { return m, nil }
	s.cfg.Logger = slog.New(slog.DiscardHandler)
	return Run(t.Context(), s.cfg)
}

type silent struct{ fake }

func (m *silent) Start(ctx context.Context, spec process.Spec, out process.Output) (process.Handle, error) {
	spec.Report = false
	return m.fake.Start(ctx, spec, out)
}

func TestHostThatDoesNotAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Workers: []hosts.Host{{Name: "d1"}, {Name: "d2"}}, Command: []string{"train"}, StartTimeout: time.Minute,
			Dial: func(ctx context.Context, h hosts.Host) (Machine, error) {
				if h.Name == "d1" {
					return nil, errors.New("host d1: connection refused")
				}
				<-ctx.Done()
				return nil, fmt.Errorf("host d2: %w", context.Cause(ctx))
			},
			Local: func(context.Context) (Machine, error) {
				return &fake{address: "127.0.0.1", procs: map[string]*proc{}}, nil
			},
			Logger: slog.New(slog.DiscardHandler),
		}
		_, err := Run(t.Context(), cfg)
		for _, want := range []string{"host d1: connection refused", "host d2: gave up after 1m0s (--start-timeout)"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q in it", err, want)
			}
		}
	})
}

func TestSchedulerAddressIsOneThatAllReach(t *testing.T) {
	here := &fake{address: "127.0.0.1"}
	for _, tc := range []struct {
		name      string
		scheduler *fake
		others    []*fake
		want      string
	}{
		{"all here", here, nil, "127.0.0.1"},
		{"all hosts on loopback", here, []*fake{{address: "127.0.0.2", launcher: "127.0.0.1"}}, "127.0.0.1"},
		{"scheduler on a host", &fake{address: "10.0.0.7", launcher: "10.0.0.1"}, []*fake{{address: "10.0.0.8", launcher: "10.0.0.1"}}, "10.0.0.7"},
	} {
		got, err := SchedulerAddress(tc.scheduler, append(tc.others, tc.scheduler))
		if err != nil || got != tc.want {
			t.Errorf("%s: %s, %v, want %s", tc.name, got, err, tc.want)
		}
	}
}

func TestHostOnLoopbackAmongOthersIsRefused(t *testing.T) {
	c := &core{nodes: []*Node{
		{Host: "localhost", machine: &machine{address: "127.0.0.1", launcher: "127.0.0.1"}},
		{Host: "d2", machine: &machine{address: "10.0.0.2", launcher: "10.0.0.1"}},
	}}
	if err := c.checkAddresses(); err == nil || !strings.Contains(err.Error(), "host localhost has a loopback address, which d2 cannot reach") {
		t.Errorf("error %v", err)
	}
}

func TestCutMakesOnePlainLine(t *testing.T) {
	for _, tc := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 10, "short"},
		{"\x1b[31mred\x1b[0m\tx\x00\a", 10, "red x"},
		{"äöüß", 3, "äöü…"},
		{"  ", 3, ""},
	} {
		if got := cut(tc.in, tc.n); got != tc.want {
			t.Errorf("cut(%q, %d) = %q, want %q", tc.in, tc.n, got, tc.want)
		}
	}
}
