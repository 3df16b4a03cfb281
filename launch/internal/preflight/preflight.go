// Package preflight finds out before a job starts whether its hosts can be used, and says what is
// wrong with each.
//
// For every host: ssh logs in without asking, rsync copies a small file into the target folder if
// one is needed, the host reaches the launching machine, the launching machine and every other host
// reach it, and its clock agrees. Nothing stays there: the file is removed, and so are folders that
// were made for it.
package preflight

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A Machine is a host that could be logged in to.
type Machine interface {
	Ask(ctx context.Context, q agent.Question) (agent.Answer, error)
	Address() string
	Close() error
}

// Config says what to check.
type Config struct {
	Hosts []hosts.Host
	Dial  func(ctx context.Context, h hosts.Host) (Machine, error)

	// SyncDir must be there or be makeable. It needs rsync on both sides.
	SyncDir string

	// Copy copies a file into a folder there by rsync, for SyncDir.
	Copy func(ctx context.Context, m Machine, file, dir string) error

	// Launcher is the address of the launching machine for the hosts.
	Launcher func(reached []Machine) (string, error)

	// MaxSkew is that of clocks; 0: 2 s.
	MaxSkew time.Duration

	// Timeout is for everything; 0: 1 min.
	Timeout time.Duration

	now      func() time.Time             // time.Now, or a test's clock
	lookPath func(string) (string, error) // exec.LookPath, or a test's programs
}

// A Report is what was found out about one host.
type Report struct {
	Host     hosts.Host
	Address  string
	Skew     time.Duration
	Problems []string

	machine Machine

	// port is the host:port at which it listens.
	port string

	// made are the folders that were made there, the innermost first.
	made []string

	copies bool // rsync can be tried
}

// Check checks all hosts at once. The reports follow the hosts.
func Check(ctx context.Context, cfg Config) []*Report {
	if cfg.MaxSkew == 0 {
		cfg.MaxSkew = 2 * time.Second
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.now == nil {
		cfg.now = time.Now
	}
	if cfg.lookPath == nil {
		cfg.lookPath = exec.LookPath
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("no answer within %s", cfg.Timeout))
	defer cancel()
	reports := make([]*Report, len(cfg.Hosts))
	for i, h := range cfg.Hosts {
		reports[i] = &Report{Host: h}
	}
	each(reports, func(r *Report) { r.login(ctx, cfg) })
	defer each(reports, func(r *Report) {
		if r.machine != nil {
			r.machine.Close()
		}
	})
	if cfg.SyncDir != "" {
		if _, err := cfg.lookPath("rsync"); err != nil {
			for _, r := range reports {
				r.problem("this machine has no rsync, which --sync-dst-dir needs; install it here")
				r.copies = false
			}
		}
		trySync(ctx, cfg, reports)
	}
	var reached []*Report
	var machines []Machine
	for _, r := range reports {
		if r.machine != nil {
			reached, machines = append(reached, r), append(machines, r.machine)
		}
	}
	if len(reached) == 0 {
		return reports
	}
	launcher, err := greet(ctx, cfg, machines)
	if err != nil {
		for _, r := range reached {
			r.problem("%v", err)
		}
	}
	each(reached, func(r *Report) { r.dial(ctx, launcher, reached) })
	return reports
}

func each(reports []*Report, f func(*Report)) {
	var all sync.WaitGroup
	for _, r := range reports {
		all.Go(func() { f(r) })
	}
	all.Wait()
}

func greet(ctx context.Context, cfg Config, reached []Machine) (string, error) {
	address, err := cfg.Launcher(reached)
	if err != nil {
		return "", err
	}
	addr, err := agent.Greet(ctx, net.JoinHostPort(address, "0"), cfg.Timeout)
	if err != nil {
		return "", fmt.Errorf("this machine cannot listen on %s: %w; choose another address with --host-ip or --interface", address, err)
	}
	return addr, nil
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, strings.TrimPrefix(fmt.Sprintf(format, args...), fmt.Sprintf("launch: host %s: ", r.Host)))
}

func (r *Report) login(ctx context.Context, cfg Config) {
	m, err := cfg.Dial(ctx, r.Host)
	if err != nil {
		r.problem("%v", err)
		return
	}
	r.machine, r.Address = m, m.Address()
	q := agent.Question{MakeDir: cfg.SyncDir, Own: cfg.SyncDir != "", Listen: net.JoinHostPort(r.Address, "0"), Hold: cfg.Timeout}
	if cfg.SyncDir != "" {
		q.Programs = []string{"rsync"}
	}
	before := cfg.now()
	a, err := m.Ask(ctx, q)
	took := cfg.now().Sub(before)
	r.made, r.copies = a.Made, err == nil && len(a.Missing) == 0 && cfg.SyncDir != ""
	if err != nil {
		r.problem("%v", err)
		if a.Time.IsZero() {
			return
		}
	}
	for _, p := range a.Missing {
		r.problem("%s is missing there, and --sync-dst-dir needs it; install it", p)
	}
	if a.ListenErr != "" {
		r.problem("cannot listen on its own address: %s", a.ListenErr)
	}
	r.port = a.Listening
	r.Skew = a.Time.Sub(before.Add(took / 2)).Round(time.Millisecond)
	if limit := cfg.MaxSkew + took/2; r.Skew > limit || r.Skew < -limit {
		r.problem("its clock is off by %s; synchronize it by NTP", r.Skew.Round(100*time.Millisecond))
	}
}

// dial tries the connections between the launching machine, this host and the others.
func (r *Report) dial(ctx context.Context, launcher string, all []*Report) {
	q := agent.Question{}
	names := make(map[string]string)
	if launcher != "" {
		q.Dial, names[launcher] = append(q.Dial, launcher), "the launching machine"
	}
	for _, o := range all {
		if o != r && o.port != "" {
			q.Dial, names[o.port] = append(q.Dial, o.port), o.Host.String()
		}
	}
	a, err := r.machine.Ask(ctx, q)
	if err != nil {
		r.problem("%v", err)
	}
	for _, addr := range q.Dial {
		if text := a.Dial[addr]; text != "" {
			r.problem("cannot reach %s: %s; check firewall and address", names[addr], text)
		}
	}
	if r.port != "" {
		if err := agent.CheckGreeting(ctx, r.port); err != nil {
			r.problem("cannot be reached from the launching machine: %v; check the firewall", err)
		}
	}
}

// Write writes a table of reports and the problems below it. It returns whether all hosts are fit.
func Write(w io.Writer, reports []*Report) bool {
	fit := true
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tADDRESS\tCLOCK\tRESULT")
	for _, r := range reports {
		address, clock, result := "-", "-", "ok"
		if r.machine != nil {
			address, clock = r.Address, fmt.Sprintf("%+.3f s", r.Skew.Seconds())
		}
		switch n := len(r.Problems); {
		case n == 1:
			result = "1 problem"
		case n > 1:
			result = fmt.Sprintf("%d problems", n)
		}
		fit = fit && len(r.Problems) == 0
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Host, address, clock, result)
	}
	t.Flush()
	for _, r := range reports {
		for _, p := range r.Problems {
			fmt.Fprintf(w, "%s: %s\n", r.Host, p)
		}
	}
	return fit
}
