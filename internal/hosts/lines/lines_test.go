package lines

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

func TestStreamWritesWholeLines(t *testing.T) {
	long := strings.Repeat("ä", MaxLine) // two bytes each
	for _, tc := range []struct {
		name   string
		writes []string
		want   []string
	}{
		{"pieces", []string{"he", "llo\nwor", "ld\n"}, []string{"hello", "world"}},
		{"no newline at the end", []string{"a\nb"}, []string{"a", "b"}},
		{"blank lines", []string{"a\n\nb\n"}, []string{"a", "", "b"}},
		{"carriage return and newline", []string{"a\r\nb\r", "\n"}, []string{"a", "b"}},
		{"progress bar", []string{"\r 0%", "\r 50%", "\r 100%\n", "done\n"}, []string{" 0%", " 100%", "done"}},
		{"bar ended by nothing", []string{"1\r2\r3\r"}, []string{"1", "3"}},
		{"too long", []string{long, "\nnext\n"}, []string{long[:MaxLine], long[MaxLine:], "next"}},
		{"too long by one byte less", []string{"x" + long, "\n"}, []string{"x" + long[:MaxLine-2], long[MaxLine-2 : 2*MaxLine-2], "ä"}},
		{"not UTF-8", []string{strings.Repeat("\xff", MaxLine+1), "\n"}, []string{strings.Repeat("\xff", MaxLine), "\xff"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			m := New(Config{Stdout: &out, Now: func() time.Time { return time.Unix(1, 0) }})
			m.Stderr(Source{Name: "scheduler"}, 1)
			s := m.Stdout(Source{Name: "worker 0"}, 0)
			for _, w := range tc.writes {
				s.Write([]byte(w))
			}
			s.Flush()
			var want strings.Builder
			for _, l := range tc.want {
				want.WriteString(strings.TrimRight("worker 0  | "+l, " ") + "\n")
			}
			if got := out.String(); got != want.String() {
				t.Errorf("wrote %.200q, want %.200q", got, want.String())
			}
			if got, want := s.Last(), tc.want[len(tc.want)-1]; got != want {
				t.Errorf("Last() = %.100q, want %.100q", got, want)
			}
		})
	}
}

func TestProgressBarIsShownEveryFewSeconds(t *testing.T) {
	now := time.Unix(100, 0)
	var out bytes.Buffer
	s := New(Config{Stdout: &out, Now: func() time.Time { return now }}).Stdout(Source{Name: "w"}, 0)
	for i := range 12 {
		fmt.Fprintf(s, "\r%d s", i)
		now = now.Add(time.Second)
	}
	s.Write([]byte("\rend\n"))
	if got, want := out.String(), "w | 0 s\nw | 5 s\nw | 10 s\nw | end\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestLinesOfSeveralProcessesNeverMix(t *testing.T) {
	var out bytes.Buffer
	m := New(Config{Stdout: &out, Stderr: &out})
	var all sync.WaitGroup
	for p := range 8 {
		s := m.Stdout(Source{Name: fmt.Sprintf("worker %d", p)}, p)
		all.Go(func() {
			for i := range 200 {
				fmt.Fprintf(s, "line %d", i)
				fmt.Fprintf(s, " of %d\n", p)
			}
		})
	}
	all.Wait()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 8*200 {
		t.Fatalf("got %d lines, want %d", len(lines), 8*200)
	}
	next := map[string]int{}
	for _, l := range lines {
		name, text, _ := strings.Cut(l, " | ")
		if want := fmt.Sprintf("line %d of %s", next[name], strings.TrimPrefix(name, "worker ")); text != want {
			t.Fatalf("%s: got %q, want %q", name, text, want)
		}
		next[name]++
	}
}

func TestHoldLetsTheTableStandFirst(t *testing.T) {
	var out bytes.Buffer
	m := New(Config{Stdout: &out, Stderr: &out})
	s := m.Stdout(Source{Name: "w"}, 0)
	fmt.Fprintln(s, "before")
	m.Hold()
	fmt.Fprintln(s, "early")
	m.Print("table\n")
	m.Release()
	fmt.Fprintln(s, "late")
	if got, want := out.String(), "w | before\ntable\nw | early\nw | late\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
	out.Reset()
	m.Hold()
	line := strings.Repeat("x", MaxLine-1)
	for range 2 * maxHeld / MaxLine {
		fmt.Fprintln(s, line)
	}
	if out.Len() < maxHeld {
		t.Errorf("%d bytes came out while more than %d were held", out.Len(), maxHeld)
	}
}

// In a log of JSON lines every line of a process is one JSON object that says who wrote it; what it
// prints on its standard output stays text.
func TestLinesInAJSONLog(t *testing.T) {
	const record = `{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"joined","job":"j","role":"worker","rank":0,"process":9,"pid":4,"host":"a1"}`
	who := Source{Name: "worker 3", Role: "worker", Rank: 3, Job: "j", Host: "a1", Process: 9}
	write := func(m *Merger) (last string) {
		o, e := m.Stdout(who, 0), m.Stderr(who, 0)
		e.SetPID(4)
		fmt.Fprintln(o, "accuracy=0.5")
		fmt.Fprintf(e, "panic: broken\n%s\n{\"mine\":1}\n%s", record, strings.Repeat("x", MaxLine+1)+"\n")
		fmt.Fprintln(e, record)
		return e.Last()
	}
	now := func() time.Time { return time.Unix(1, 0).UTC() }
	var out, log bytes.Buffer
	if got := write(New(Config{Stdout: &out, Stderr: &log, ColorStderr: true, LogJSON: true, Now: now})); got != "panic: broken" {
		t.Errorf("Last is %q, want why it panicked", got)
	}
	if got, want := out.String(), "worker 3 | accuracy=0.5\n"; got != want {
		t.Errorf("stdout is %q, want %q", got, want)
	}
	const head = `{"time":"1970-01-01T00:00:01Z","level":"INFO","msg":`
	const rest = `,"job":"j","role":"worker","rank":3,"process":9,"pid":4,"host":"a1","event":"process_output",`
	want := head + `"panic: broken"` + rest + `"more":false}` + "\n" + record + "\n" + head + `""` + rest + `"record":{"mine":1}}` + "\n" +
		head + `"` + strings.Repeat("x", MaxLine) + `"` + rest + `"more":true}` + "\n" + head + `"x"` + rest + `"more":false}` + "\n" + record + "\n"
	if got := log.String(); got != want {
		t.Errorf("stderr is\n%.900s\nwant\n%.900s", got, want)
	}
	out.Reset()
	log.Reset()
	write(New(Config{Stdout: &out, Stderr: &log, JSON: true, LogJSON: true, Now: now}))
	var records []control.JSON
	if err := control.ReadLines(&out, func(l control.Line) { records = append(records, l.Record) }); err != nil || log.Len() > 0 {
		t.Errorf("error %v, stderr %q", err, log.String())
	}
	if want := []control.JSON{"", "", record, `{"mine":1}`, "", "", record}; !slices.Equal(records, want) {
		t.Errorf("got records %q, want %q", records, want)
	}
	s := New(Config{LogJSON: true}).Stderr(who, 0)
	fmt.Fprintln(s, record)
	if got, want := s.Last(), "2026-01-02T03:04:05Z INFO joined"; got != want {
		t.Errorf("Last is %q, want %q", got, want)
	}
}

func TestColorsOnlyWhereAskedFor(t *testing.T) {
	var out, err bytes.Buffer
	m := New(Config{Stdout: &out, Stderr: &err, ColorStdout: true})
	fmt.Fprintln(m.Stdout(Source{Name: "worker 0"}, 0), "x")
	fmt.Fprintln(m.Stderr(Source{Name: "worker 0"}, 0), "y")
	if got, want := out.String(), "\x1b[36mworker 0 |\x1b[0m x\n"; got != want {
		t.Errorf("stdout: %q, want %q", got, want)
	}
	if got, want := err.String(), "worker 0 | y\n"; got != want {
		t.Errorf("stderr: %q, want %q", got, want)
	}
}

// In JSON every line, whatever it holds, comes back as its process printed it, with the process's
// role and rank.
func TestLinesAsJSON(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	var out, err bytes.Buffer
	m := New(Config{Stdout: &out, Stderr: &err, JSON: true, ColorStdout: true})
	worker := Source{Name: "worker 3", Role: "worker", Rank: 3}
	stdout, stderr := m.Stdout(worker, 0), m.Stderr(worker, 0)
	fmt.Fprint(stdout, "accuracy=0.5 step=1\nserver 0 | a \"quote\" \x01\n")
	fmt.Fprint(stderr, "warning\n")
	m.Print("launch: a message\n")
	stdout.Rename(Source{Name: "worker 0", Role: "worker"})
	fmt.Fprint(stdout, long+"rest\n\nlast")
	stdout.Flush()
	var got []control.Line
	if err := control.ReadLines(&out, func(l control.Line) { got = append(got, l) }); err != nil {
		t.Fatal(err)
	}
	want := []control.Line{
		{Role: "worker", Rank: 3, Stream: "stdout", Text: "accuracy=0.5 step=1"},
		{Role: "worker", Rank: 3, Stream: "stdout", Text: "server 0 | a \"quote\" \x01"},
		{Role: "worker", Rank: 3, Stream: "stderr", Text: "warning"},
		{Role: "worker", Rank: 0, Stream: "stdout", Text: long, More: true},
		{Role: "worker", Rank: 0, Stream: "stdout", Text: "rest"},
		{Role: "worker", Rank: 0, Stream: "stdout"},
		{Role: "worker", Rank: 0, Stream: "stdout", Text: "last"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %.400v, want %.400v", got, want)
	}
	if err.String() != "launch: a message\n" {
		t.Errorf("stderr is %q, want the launcher's message alone", err.String())
	}
	var called []control.Line
	s := New(Config{Each: func(l control.Line) { called = append(called, l) }}).Stderr(worker, 0)
	fmt.Fprint(s, "a\nb\n")
	if want := []control.Line{{Role: "worker", Rank: 3, Stream: "stderr", Text: "a"}, {Role: "worker", Rank: 3, Stream: "stderr", Text: "b"}}; !slices.Equal(called, want) {
		t.Errorf("Each got %v, want %v", called, want)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("a\nb\r\nc\rd", 3)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		var out bytes.Buffer
		s := New(Config{Stdout: &out}).Stdout(Source{Name: "w"}, 0)
		if cut < 0 || cut > len(text) {
			cut = len(text) / 2
		}
		s.Write([]byte(text[:cut]))
		s.Write([]byte(text[cut:]))
		s.Flush()
		for _, l := range strings.SplitAfter(out.String(), "\n") {
			if l != "" && (!strings.HasPrefix(l, "w |") || !strings.HasSuffix(l, "\n")) {
				t.Errorf("%q: wrote line %q", text, l)
			}
		}
		// Without carriage returns every byte comes out.
		if !strings.Contains(text, "\r") && len(text) < MaxLine {
			got := strings.ReplaceAll(strings.ReplaceAll(out.String(), "w | ", ""), "w |", "")
			if got != text && got != text+"\n" && !strings.Contains(text, "w |") {
				t.Errorf("%q: wrote %q", text, got)
			}
		}
	})
}

func TestLastLineOfAPanicIsItsReason(t *testing.T) {
	for _, why := range []string{"panic: index out of range", "fatal error: concurrent map writes", "SIGABRT: abort"} {
		s := New(Config{}).Stderr(Source{Name: "worker 0"}, 0)
		fmt.Fprintf(s, "step 3\n%s\n\ngoroutine 1 [running]:\nmain.main()\n\t/train.go:84 +0x14af\ngs 0x0\n", why)
		if got := s.Last(); got != why {
			t.Errorf("Last() = %q, want %q", got, why)
		}
	}
}

// A pager that does not read holds the processes up, but not the end of the job; the other stream
// goes on.
func TestHurryDoesNotWaitForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var stderr bytes.Buffer
		m := New(Config{Stdout: w, Stderr: &stderr})
		s := m.Stdout(Source{Name: "worker 0"}, 0)
		wrote := make(chan struct{})
		go func() {
			for range 1000 {
				io.WriteString(s, "a line\n")
			}
			close(wrote)
		}()
		time.Sleep(time.Hour)
		select {
		case <-wrote:
			t.Fatal("lines were lost though nobody was in a hurry")
		default:
		}
		begin := time.Now()
		m.Hurry()
		m.Hurry()
		<-wrote
		m.Print("the end\n")
		if took := time.Since(begin); took > hurryTime {
			t.Errorf("took %v, want %v", took, hurryTime)
		}
		if got, want := stderr.String(), "the end\n"; got != want {
			t.Errorf("stderr %q, want %q", got, want)
		}
		r.Close()
		synctest.Wait()

		// The reader is gone, which is no wait.
		io.WriteString(s, "heard again\n")
	})
}
