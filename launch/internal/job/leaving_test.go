package job

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// leavingMachine is a machine that tells of its host.
type leavingMachine struct {
	*fake
	notices chan agent.Notice
}

func (m leavingMachine) Leaving() <-chan agent.Notice { return m.notices }

// What a machine tells of its host comes to the core.
func TestNoticesOfMachinesAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		notices := make(chan agent.Notice, 1)
		s.machine = func(m *fake) Machine { return leavingMachine{m, notices} }
		time.AfterFunc(5*time.Second, func() { notices <- agent.Notice{Code: agent.NoticeAtRisk, Text: "the provider needs it"} })
		var log bytes.Buffer
		res, err := s.runLogged(t, slog.New(slog.NewTextHandler(&log, nil)), obedient(20*time.Second))
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if want := "host localhost may be taken away before long: the provider needs it"; !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log.String())
		}
	})
}
