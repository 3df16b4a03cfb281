package top

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/paragon-train/paragon/internal/member/control"
)

var update = flag.Bool("update", false, "write the golden screens")

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// plain is what a terminal without colours shows.
func plain(m *model) string {
	lines := strings.Split(escapes.ReplaceAllString(m.page.text(), ""), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func press(m *model, keys ...string) {
	for _, k := range keys {
		m.key(k)
	}
}

func withEvents(m *model) *model {
	m.Update(eventsMsg{events: &control.Events{Phase: control.Running, Last: 2}})
	at := begin.Add(90 * time.Second).In(time.Local)
	at = time.Date(at.Year(), at.Month(), at.Day(), 12, 1, 30, 0, time.Local)
	m.Update(eventsMsg{events: &control.Events{Phase: control.Running, Last: 2, Events: []control.Event{
		{Number: 1, TimeNS: at.UnixNano(), Action: control.Lost, Host: "host1", Role: control.Worker, PID: 1001, Reason: "worker 1 on host1 lost: signal 9 (killed)"},
		{Number: 2, TimeNS: at.Add(4 * time.Second).UnixNano(), Action: control.Scaling, Workers: 6}}}})
	return m
}

func TestScreens(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T) *model
	}{
		{"80x24", func(t *testing.T) *model { return withEvents(shown(t, &fakeJob{workers: 4, servers: 2}, 40, 80, 24)) }},
		{"200x60", func(t *testing.T) *model {
			return withEvents(shown(t, &fakeJob{workers: 12, servers: 4}, 90, 200, 60))
		}},
		{"many", func(t *testing.T) *model { return shown(t, &fakeJob{workers: 400, servers: 30}, 4, 80, 24) }},
		{"small", func(t *testing.T) *model { return shown(t, &fakeJob{workers: 4, servers: 2}, 12, 38, 9) }},
		{"details", func(t *testing.T) *model {
			m := shown(t, &fakeJob{workers: 4, servers: 2}, 40, 80, 24)
			press(m, "enter")
			return m
		}},
		{"help", func(t *testing.T) *model {
			m := shown(t, &fakeJob{workers: 4, servers: 2}, 4, 80, 24)
			press(m, "?")
			return m
		}},
		{"nothing", func(t *testing.T) *model { return shown(t, nil, 0, 80, 24) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.make(t)
			got := plain(m)
			if lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n"); len(lines) != m.page.height {
				t.Errorf("%d lines in a terminal of %d", len(lines), m.page.height)
			}
			path := filepath.Join("testdata", c.name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// No line is wider than the terminal, and there are as many as it has, whatever its size and the
// page.
func TestScreensFitEverySize(t *testing.T) {
	m := withEvents(shown(t, &fakeJob{workers: 7, servers: 3}, 12, 80, 24))
	for _, page := range []string{"", "enter", "?"} {
		press(m, page)
		for width := 1; width <= 220; width += 13 {
			for _, height := range []int{1, 2, 5, 9, 15, 24, 60} {
				m.Update(tea.WindowSizeMsg{Width: width, Height: height})
				lines := strings.Split(m.View().Content, "\n")
				if len(lines) != height {
					t.Fatalf("page %q: %d lines in a terminal of %d×%d", page, len(lines), width, height)
				}
				for _, l := range lines {
					if w := lipgloss.Width(l); w > width {
						t.Fatalf("page %q: a line of %d cells in a terminal of %d×%d: %q", page, w, width, height, l)
					}
				}
			}
		}
		press(m, "esc")
	}
}

// Columns that matter less, and wide gaps, make room for the names of hosts.
func TestNamesOfHostsAreWhole(t *testing.T) {
	for _, domain := range []string{"-local", ".example", ".rack-7.example"} {
		for width := 80; width <= 220; width++ {
			if width < 90 && len(domain) > 12 {
				continue
			}
			text := plain(shown(t, &fakeJob{workers: 4, servers: 2, domain: domain}, 3, width, 24))
			for _, name := range []string{"host3" + domain, "p1" + domain} {
				if !strings.Contains(text, " "+name+" ") {
					t.Fatalf("in a terminal of %d cells %s is cut:\n%s", width, name, text)
				}
			}
		}
	}
}

// ranks are the workers in the order that is shown, and the chosen one.
func ranks(m *model) string {
	var text []string
	for _, w := range m.page.snapshot.Workers {
		mark := ""
		if w.Node == m.page.cursor {
			mark = "›"
		}
		text = append(text, mark+fmt.Sprint(w.Rank))
	}
	return strings.Join(text, " ")
}

func TestKeys(t *testing.T) {
	j := &fakeJob{workers: 4, servers: 1}
	m := shown(t, j, 20, 80, 24)
	want := func(after, order string) {
		t.Helper()
		if got := ranks(m); got != order {
			t.Errorf("after %s: workers %s, want %s", after, got, order)
		}
	}
	want("the start", "3 ›0 1 2")
	press(m, "up")
	want("up", "›3 0 1 2")
	press(m, "k", "s")
	want("s: by rank", "0 1 2 ›3")
	press(m, "g", "j")
	want("g j", "0 ›1 2 3")
	press(m, "G", "down", "s", "s", "s", "s")
	want("s: by blame again", "›3 0 1 2")
	press(m, "enter")
	if !m.page.details || !strings.Contains(plain(m), "worker 3 on host3") {
		t.Errorf("enter shows\n%s", plain(m))
	}
	press(m, "j")
	if !strings.Contains(plain(m), "worker 0 on host0") {
		t.Errorf("j in the details shows\n%s", plain(m))
	}
	press(m, "esc")
	if m.page.details {
		t.Error("esc keeps the details")
	}
	m.asking = false
	press(m, "p")
	if cmd := m.poll(); cmd != nil || !strings.Contains(plain(m), "PAUSED") {
		t.Errorf("a paused page asks: %t, and shows\n%s", cmd != nil, plain(m))
	}
	if press(m, "p"); !m.asking {
		t.Error("after the pause nobody asks")
	}
	for _, key := range []string{"q", "ctrl+c"} {
		if cmd := m.key(key); cmd == nil || cmd() != (tea.QuitMsg{}) {
			t.Errorf("%s does not quit", key)
		}
	}
	if cmd := m.key("ctrl+z"); cmd == nil || cmd() != (tea.SuspendMsg{}) {
		t.Error("ctrl+z does not suspend")
	}
}

// Old numbers are shown as old, and the page goes on when the scheduler does.
func TestPageWhileTheSchedulerRestarts(t *testing.T) {
	j := &fakeJob{workers: 2, servers: 1}
	m := shown(t, j, 10, 80, 24)
	want := func(parts ...string) {
		t.Helper()
		for _, part := range parts {
			if text := plain(m); !strings.Contains(text, part) {
				t.Errorf("the page has no %q:\n%s", part, text)
			}
		}
	}
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	m.Update(tickMsg(at(14)))
	m.Update(answerMsg{asked: at(14), telemetry: &control.Telemetry{}, err: errors.New("connection refused")})
	want("The scheduler does not answer; training goes on while it is started again. The", "numbers are 4s old.", "640")
	for _, l := range strings.Split(m.page.text(), "\n") {
		if strings.Contains(l, "host1") && !strings.HasPrefix(l, "\x1b[2m") {
			t.Errorf("old numbers look like new ones: %q", l)
		}
	}
	if !strings.Contains(plain(m), "host1") {
		t.Error("the page has no worker on host1")
	}
	j.incarnation, j.seconds = 1, 14
	fresh := j.telemetry()

	// Nobody has sent a heartbeat to the new one.
	for i := range fresh.Nodes {
		fresh.Nodes[i].AgeMillis = -1
		for k := range fresh.Nodes[i].Values {
			fresh.Nodes[i].Values[k] = control.Number(math.NaN())
		}
	}
	m.Update(tickMsg(at(15)))
	m.Update(answerMsg{asked: at(15), telemetry: fresh})
	want("The scheduler was started again 0s ago.", "640")
	step(m, j)
	want("The scheduler was started again", "640", "100ms")
	m.Update(answerMsg{asked: at(16), telemetry: &control.Telemetry{}, err: errors.New("connection refused"), over: true})
	want("The job is over.")
	if m.poll() != nil {
		t.Error("a job that is over is asked")
	}
}

func TestPageOfAJobThatFailed(t *testing.T) {
	m := shown(t, &fakeJob{workers: 2, servers: 1}, 3, 80, 24)
	m.Update(eventsMsg{events: &control.Events{Phase: control.Running}})
	m.Update(eventsMsg{events: &control.Events{Phase: control.Failed, Reason: "worker 1 was lost\x1b[2J"}})
	if text := plain(m); !strings.Contains(text, "The job has failed (worker 1 was lost?[2J)") || strings.Contains(text, "\x1b") {
		t.Errorf("the page is\n%q", text)
	}
}

// Large answers are asked for less often, so that they take 8 KB/s, and at least every 15 s.
func TestQuestionsAreAsRareAsAnswersAreLarge(t *testing.T) {
	for _, c := range []struct {
		bytes int
		pause time.Duration
	}{{2_000, time.Second}, {8 << 10, time.Second}, {40 << 10, 5 * time.Second}, {1 << 20, 15 * time.Second}} {
		m := newModel(t.Context(), nil, begin, begin)
		m.Update(answerMsg{asked: begin, telemetry: (&fakeJob{workers: 1, seconds: 1}).telemetry(), bytes: c.bytes})
		if got := m.next.Sub(begin); got != c.pause {
			t.Errorf("after an answer of %d bytes the next question comes in %v, want %v", c.bytes, got, c.pause)
		}
	}
}

// What is asked for in a second is under 10 KB, unless the job is so large that it is asked for
// every 15 s.
func TestAnswersOfAnOrdinaryJobAreSmall(t *testing.T) {
	for _, workers := range []int{4, 16, 64, 256} {
		raw, err := control.EncodeAnswer((&fakeJob{workers: workers, servers: workers / 4, seconds: 1e5}).telemetry())
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(t.Context(), nil, begin, begin)
		m.Update(answerMsg{asked: begin, telemetry: (&fakeJob{workers: 1, seconds: 1}).telemetry(), bytes: len(raw)})
		rate := float64(len(raw)) / m.next.Sub(begin).Seconds()
		t.Logf("%d workers: %d bytes every %v: %.0f bytes/s", workers, len(raw), m.next.Sub(begin), rate)
		if rate > 10_000 {
			t.Errorf("%d workers: %d bytes every %v, want at most 10 KB/s", workers, len(raw), m.next.Sub(begin))
		}
	}
}

// An event that says who is slow is shown by its sentence, which names the worker.
func TestEventsOfSlowWorkersAreTheirSentences(t *testing.T) {
	e := control.Event{Action: control.BecameSlow, Host: "h", Role: control.Worker, PID: 5, Reason: "worker 3 on h is slow: last in 94 % of the last 9 rounds"}
	if got, want := eventText(e), " SLOW "+e.Reason; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
}

func TestTheHeaderCountsNoWorkerThatIsGone(t *testing.T) {
	m := shown(t, &fakeJob{workers: 4, servers: 2}, 3, 80, 24)
	answer := (&fakeJob{workers: 4, servers: 2, seconds: 4}).telemetry()
	answer.Nodes[len(answer.Nodes)-1].State = control.NodeGone
	m.Update(answerMsg{asked: begin.Add(4 * time.Second), telemetry: answer})
	if head, _, _ := strings.Cut(plain(m), "\n"); !strings.Contains(head, "3 workers · 2 servers") {
		t.Errorf("with one of 4 workers gone the header is %q, want 3 workers", head)
	}
}

func TestEventOfAServerNamesItOnce(t *testing.T) {
	e := control.Event{Action: control.ServerAdded, Host: "a1", Role: control.Server, Rank: 2, PID: 20080}
	if got, want := EventText(e), "SERVER_ADDED server 2 on a1 process 20080"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
