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
	"text/tabwriter"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

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

	// Hosts answer at their own pace, so each step is one for all of them: login and its
	// questions, the copy, and only then the connections, since every host must listen by the
	// time at which others try it.
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

// greet listens at the launcher's address for the connections of the hosts, as a scheduler there
// will. It returns the address with its port.
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

// login connects to the host and asks what can be asked of it alone. Its clock is compared with the
// middle of the time that the answer took, and half of that time is as much as the comparison can
// be wrong.
func (r *Report) login(ctx context.Context, cfg Config) {
	m, err := cfg.Dial(ctx, r.Host)
	if err != nil {
		r.problem("%v", err)
		return
	}
	r.machine, r.Address = m, m.Address()

	// The host listens from now on, for as long as the check may take.
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

		// An agent that has answered in part is asked no more, and what it said counts.
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

	// names says in messages what is at an address.
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
