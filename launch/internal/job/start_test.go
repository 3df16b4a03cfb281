package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/process"
)

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
			Places: Places{Workers: []hosts.Host{{Name: "d1"}, {Name: "d2"}}}, Command: []string{"train"}, Times: Times{StartTimeout: time.Minute},
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
	nodes := []*Node{
		{Host: "localhost", machine: &machine{address: "127.0.0.1", launcher: "127.0.0.1"}},
		{Host: "d2", machine: &machine{address: "10.0.0.2", launcher: "10.0.0.1"}},
	}
	if err := checkAddresses(nodes); err == nil || !strings.Contains(err.Error(), "host localhost has a loopback address, which d2 cannot reach") {
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
