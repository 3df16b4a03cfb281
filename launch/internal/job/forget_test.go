package job

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// However many servers come and go, the launcher remembers the newest, and says how many more there
// were.
func TestProcessesThatCameAndWentAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		s.cfg.Elastic.Backups = 1
		const rounds, life = maxEnded + 200, 2 * time.Second
		go func() {
			time.Sleep(time.Second)
			for range rounds {
				f.do(func(m *membership, now time.Time) {
					m.people(now, control.Request{Op: control.OpAddServer, Host: "localhost"})
				})
				time.Sleep(1500 * time.Millisecond)
				f.do(func(m *membership, now time.Time) {
					m.people(now, control.Request{Op: control.OpRemoveServer, Rank: 1})
				})
				time.Sleep(1500 * time.Millisecond)
			}
		}()
		train := obedient((rounds + 10) * 3 * time.Second)
		res, err := s.run(t, func(p *proc) {
			if p.name == "server 1" {
				fmt.Fprintln(p.out.Stderr, strings.Repeat("x", 2*maxLast))
				p.after(life, 0)
				return
			}
			train(p)
		})
		if err != nil || res.Code != 0 {
			t.Fatalf("Run: code %d, %v", res.Code, err)
		}
		if most := maxEnded + 10; len(res.Nodes) > most {
			t.Errorf("%d processes are remembered of %d, want at most %d", len(res.Nodes), rounds+3, most)
		}
		for _, n := range res.Nodes {
			if len(n.Last) > maxLast {
				t.Fatalf("%s has ended: its last line has %d bytes, want at most %d", n.Name(), len(n.Last), maxLast)
			}
		}
		if res.Nodes[0].Role != roleScheduler {
			t.Errorf("the first process is %s, want the scheduler", res.Nodes[0].Name())
		}
		if want := "earlier processes that ended are not shown\n"; !strings.Contains(s.out.String(), want) {
			t.Errorf("the table does not say %q", want)
		}
	})
}
