package dialin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/framing"
)

// Two spellings of a name are one host, of which there is one agent.
func TestNamesThatMeanOneHost(t *testing.T) {
	for _, names := range [][2]string{{"n1", "N1"}, {"n1.example.org", "n1.example.org."}, {"::1", "0:0::1"}} {
		l := startListener(t, Config{})
		first := startAgent(t, t.Context(), l, names[0])
		m, err := l.Dial(withPatience(t), names[0])
		if err != nil {
			t.Fatal(err)
		}
		c, err := tlsTo(t, l, sharedKeys(t, l.cfg.Secret).Client(), serverJoin)
		if err != nil {
			t.Fatal(err)
		}
		var w welcome
		if err := framing.WriteJSON(c, hello{Ask: askSession, Info: Info{Name: names[1], Build: "build 1"}}, maxMessage); err != nil {
			t.Fatal(err)
		}
		if err := framing.ReadJSON(c, &w, maxMessage); err != nil || w.Refused != refusedName {
			t.Errorf("agent %s beside %s: refused %q (%s), error %v, want %q", names[1], names[0], w.Refused, w.Reason, err, refusedName)
		}
		c.NetConn().Close()
		echo(t, m, "still there")
		l.Close()
		if err := await(t, first); err != nil {
			t.Error(err)
		}
	}
}

func TestAddressesOfAnInfo(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "10.0.0.1": true, "fe80::1": true, "fe80::1%eth0": true,
		"n1": false, "fe80::1%eth0\n2018-06-03 INFO job done": false, "fe80::1%\x1b[2J": false, "fe80::1%a b": false,
	} {
		for _, i := range []Info{{Name: "n1", Address: address}, {Name: "n1", Launcher: address}} {
			if err := i.Check(); (err == nil) != good {
				t.Errorf("%+v: %v, want an error: %t", i, err, !good)
			} else if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%+v: error %q has control characters", i, err)
			}
		}
	}
}

// Agents with ever new names that come and go, while nobody reads the changes, take no more than so
// much memory.
func TestChangesThatNobodyReadsAreBounded(t *testing.T) {
	const stay = 100
	l := &Listener{changed: make(chan struct{})}
	for n := range maxChanges/2 + 2*stay {
		i := Info{Name: fmt.Sprint("n", n)}
		if l.change(Change{i, true}); n >= stay {
			l.change(Change{i, false})
		}
	}
	if n := len(l.queue.waiting); n > maxChanges {
		t.Errorf("%d changes wait, want at most %d", n, maxChanges)
	}
	for n := range stay {
		if c := l.queue.waiting[n]; c.Info.Name != fmt.Sprint("n", n) || !c.Joined {
			t.Fatalf("change %d is %+v, want that agent n%d has joined", n, c, n)
		}
	}
}
