package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/hosts/process"
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
	ranMu      sync.Mutex
	ran        Config // with its defaults; a scheduler may read it while the job begins
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
	ran := s.cfg
	if err := ran.setDefaults(); err != nil {
		t.Fatal(err)
	}
	s.ranMu.Lock()
	s.ran = ran
	s.ranMu.Unlock()
	return Run(t.Context(), s.cfg)
}
