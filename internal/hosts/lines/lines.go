// Package lines merges the output of many processes by whole lines: as text with each line behind
// the name of its process, as JSON, or as calls of a function. In a log of JSON lines those of the
// processes stay as they are.
//
// A Merger owns the two streams of the launcher; a Stream is one of the two streams of one process
// and an io.Writer. A line is written once it is complete, so lines of different processes never
// mix. A carriage return that is not part of a line's end takes back what stands before it, as on a
// terminal; of a progress bar drawn in this way one state every few seconds is shown, and the last
// one. A line longer than MaxLine is written in pieces, so no process can fill the launcher's
// memory.
//
// Whoever reads the launcher's output sets the pace: while nobody does (a pager, a terminal that
// was stopped), the processes wait. After Hurry, when the job has to end, they no longer do.
package lines

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// MaxLine is how many bytes of one line are held back, waiting for its end.
const MaxLine = 64 << 10

// BarInterval is the least time between two states of a progress bar.
const BarInterval = 5 * time.Second

// Config configures a Merger.
type Config struct {
	// Stdout and Stderr get the lines; nil: they are dropped.
	Stdout, Stderr io.Writer

	// ColorStdout and ColorStderr say that the names have colours, as terminals read them.
	ColorStdout, ColorStderr bool

	// JSON says that each line of a process, of whichever stream, is written to Stdout as a
	// control.Line.
	JSON bool

	// LogJSON says that Stderr is a log of JSON lines. Package joblog says what becomes of a
	// process's lines.
	LogJSON bool

	// Each is called with each line, too, one at a time; nil: nobody is.
	Each func(control.Line)

	Now func() time.Time
}

// A Merger writes whole lines of several Streams. Its methods may be called together.
type Merger struct {
	cfg            Config
	stdout, stderr *sink
	hurry          chan struct{} // closed by Hurry

	// once is for Hurry.
	once sync.Once

	// mu guards what the sinks hold, and the rest.
	mu sync.Mutex

	width int
	hold  bool
	held  []heldLine

	// bytes is the number of bytes of held.
	bytes int
}

type heldLine struct {
	out  *sink
	line []byte
}

// maxHeld bounds the bytes that Hold keeps back.
const maxHeld = 1 << 20

// New makes a Merger. Prefixes are as wide as the longest name that has a Stream by then.
func New(cfg Config) *Merger {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	sinkOf := func(w io.Writer) *sink {
		if w == nil {
			w = io.Discard
		}
		return &sink{w: w}
	}
	return &Merger{cfg: cfg, stdout: sinkOf(cfg.Stdout), stderr: sinkOf(cfg.Stderr), hurry: make(chan struct{})}
}

// colors are those of terminals that read well on dark and on light ground: not black, white,
// yellow.
var colors = []string{"\x1b[36m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[31m", "\x1b[96m", "\x1b[92m", "\x1b[95m", "\x1b[94m", "\x1b[91m"}

const plain = "\x1b[0m"

// A Source is a process whose output is taken.
type Source struct {
	// Name stands before its lines, such as "worker 0".
	Name string

	Role string // worker, server, scheduler or prepare
	Rank int

	// The rest is for JSON logs; see joblog.Identity.
	Job, Host string
	Process   uint32
}

// A Stream is the stdout or stderr of one process. Its methods may be called together with those of
// other Streams only.
type Stream struct {
	m    *Merger
	out  *sink
	kind string // control.Stdout or control.Stderr

	// source is guarded by the Merger's mu, as pid is.
	source Source

	// pid is 0 if it is not known.
	pid int

	color string

	// line is what is held back until its end comes.
	line []byte

	cut bool // the line's first pieces are out

	// draft is what the last carriage return took back.
	draft []byte

	shown time.Time

	// lastMu guards the fields below.
	lastMu sync.Mutex

	last string

	// panic says that last is why a Go program died. Its goroutines follow.
	panic bool
}

// Stdout takes the standard output of a process; number picks its colour.
func (m *Merger) Stdout(source Source, number int) *Stream {
	return m.stream(m.stdout, control.Stdout, m.cfg.ColorStdout, source, number)
}

// Stderr takes the standard error of a process.
func (m *Merger) Stderr(source Source, number int) *Stream {
	out := m.stderr
	if m.cfg.JSON {
		out = m.stdout
	}
	return m.stream(out, control.Stderr, m.cfg.ColorStderr, source, number)
}

func (m *Merger) stream(out *sink, kind string, color bool, source Source, number int) *Stream {
	s := &Stream{m: m, out: out, kind: kind, source: source}
	m.mu.Lock()
	m.width = max(m.width, len(source.Name))
	m.mu.Unlock()
	if color {
		s.color = colors[number%len(colors)]
	}
	return s
}

// Rename gives the process another name and rank, for the lines that follow. It may be called
// together with the other methods.
func (s *Stream) Rename(source Source) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.source = source
	s.m.width = max(s.m.width, len(source.Name))
}

// SetPID says under which process ID its host knows the process. It may be called together with the
// other methods.
func (s *Stream) SetPID(pid int) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.pid = pid
}

// Write takes output of the process. It never fails: a launcher whose own output is gone ends by
// other means.
func (s *Stream) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			s.hold(p)
			break
		}
		s.hold(p[:i])
		switch {
		case p[i] == '\n':
			s.end()
		case len(s.line) > 0:
			// Of several carriage returns the first one counts.
			s.back()
		}
		p = p[i+1:]
	}
	return n, nil
}

// hold adds to the line, and writes what is too long to hold.
func (s *Stream) hold(p []byte) {
	for len(s.line)+len(p) > MaxLine {
		n := MaxLine - len(s.line)
		s.line = append(s.line, p[:n]...)
		p = p[n:]
		whole := len(s.line)

		// The cut is not in the middle of a character.
		for range utf8.UTFMax - 1 {
			if r, size := utf8.DecodeLastRune(s.line[:whole]); r != utf8.RuneError || size != 1 {
				break
			}
			whole--
		}
		if r, size := utf8.DecodeLastRune(s.line[:whole]); r == utf8.RuneError && size == 1 {
			// The line is not UTF-8 at all, so it may be cut anywhere.
			whole = len(s.line)
		}
		rest := bytes.Clone(s.line[whole:])
		s.emit(s.line[:whole], true)
		s.line = append(s.line[:0], rest...)
		s.cut = true
	}
	s.line = append(s.line, p...)
}

// back takes the line back, as a carriage return does.
func (s *Stream) back() {
	s.draft = append(s.draft[:0], s.line...)
	s.line, s.cut = s.line[:0], false
	if now := s.m.cfg.Now(); now.Sub(s.shown) >= BarInterval {
		s.shown = now
		s.emit(s.draft, false)
		s.draft = s.draft[:0]
	}
}

// end writes the line that a newline completes.
func (s *Stream) end() {
	line := s.line
	if len(line) == 0 {
		line = s.draft // "text\r\n"
	}
	if len(line) > 0 || !s.cut && s.shown.IsZero() {
		s.emit(line, false)
	}
	s.line, s.draft, s.cut, s.shown = s.line[:0], s.draft[:0], false, time.Time{}
}

// Flush writes a last line that has no newline.
func (s *Stream) Flush() {
	if len(s.line) > 0 || len(s.draft) > 0 {
		s.end()
	}
}

// Last is the last line that was not blank, or the one that says why a Go program panicked.
func (s *Stream) Last() string {
	s.lastMu.Lock()
	defer s.lastMu.Unlock()
	return s.last
}

// lastWords begin the line in which a Go program says why it dies; many more follow.
var lastWords = []string{"panic: ", "fatal error: ", "SIGABRT: ", "SIGSEGV: ", "SIGBUS: ", "SIGFPE: ", "SIGILL: ", "SIGQUIT: "}

// emit passes a line on; more says that the rest of it follows.
func (s *Stream) emit(line []byte, more bool) {
	if len(bytes.TrimSpace(line)) > 0 {
		s.lastMu.Lock()
		panicked := slices.ContainsFunc(lastWords, func(w string) bool { return strings.HasPrefix(string(line), w) })
		if panicked || !s.panic {
			s.last = string(line)
			if text, ok := joblog.Summary(line); ok && s.m.cfg.LogJSON {
				s.last = text
			}
		}
		s.panic = s.panic || panicked
		s.lastMu.Unlock()
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	l := control.Line{Role: s.source.Role, Rank: s.source.Rank, Stream: s.kind, Text: string(line), More: more}
	if s.m.cfg.Each != nil {
		s.m.cfg.Each(l)
	}
	var b []byte
	switch log := s.m.cfg.LogJSON && s.kind == control.Stderr; {
	case s.m.cfg.JSON:
		if log && !more && !s.cut && joblog.Object(line) {
			l.Record = control.JSON(line)
		}
		b = l.Encode()
	case log:
		b = joblog.Output(joblog.Identity{Job: s.source.Job, Role: s.source.Role, Rank: s.source.Rank, Process: s.source.Process, PID: s.pid, Host: s.source.Host},
			s.m.cfg.Now(), line, more)
	default:
		b = s.text(line)
	}
	if s.m.hold && s.m.bytes+len(b) <= maxHeld {
		s.m.held, s.m.bytes = append(s.m.held, heldLine{s.out, b}), s.m.bytes+len(b)
		return
	}
	s.m.release()
	s.m.write(s.out, b)
}

// text is a line behind the name of its process. The caller holds m.mu.
func (s *Stream) text(line []byte) []byte {
	name := s.source.Name
	b := make([]byte, 0, len(s.color)+s.m.width+len(plain)+3+len(line)+1)
	b = append(b, s.color...)
	b = append(b, name...)
	b = append(b, strings.Repeat(" ", s.m.width-len(name))...)
	b = append(b, " |"...)
	if s.color != "" {
		b = append(b, plain...)
	}
	if len(line) > 0 {
		b = append(b, ' ')
		b = append(b, line...)
	}
	return append(b, '\n')
}

// Hold keeps lines of processes back until Release, so that what Print writes meanwhile stands
// before them.
func (m *Merger) Hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold = true
}

// Release ends Hold.
func (m *Merger) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release()
}

func (m *Merger) release() {
	for _, h := range m.held {
		m.write(h.out, h.line)
	}
	m.hold, m.held, m.bytes = false, nil, 0
}

// Print writes lines of the launcher's own to its standard error, between those of the processes.
func (m *Merger) Print(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(m.stderr, []byte(text))
}
