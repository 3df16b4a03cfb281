package agent

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/framing"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
)

// A kind says what a frame holds. Frames of kinds that a side does not know are skipped.
type kind uint8

const (
	// launcher to agent
	// kindStart has a process.Spec, which is started under the frame's number.
	kindStart kind = 'S'

	// kindSignal has a signalBody for the process of that number and its group.
	kindSignal kind = 'K'

	// kindPing is empty: the launcher lives.
	kindPing kind = 'P'

	kindAsk kind = 'Q' // Question

	// kindNoted is empty: the launcher has taken the notice, and lets the processes leave.
	kindNoted kind = 'N'

	// agent to launcher
	// kindHello has a Hello, and is the first frame.
	kindHello kind = 'h'

	kindStarted kind = 's' // startedBody
	kindStdout  kind = 'o' // bytes
	kindStderr  kind = 'e' // bytes
	kindReport  kind = 'r' // bytes

	// kindExit has an exitBody, and is the last frame of a number.
	kindExit kind = 'x'

	kindAnswer  kind = 'a' // Answer
	kindLeaving kind = 'l' // Notice
)

// headLen is what stands before the body in a message (package framing):
//
//	offset  size  field
//	     0     1  kind
//	     1     4  number  of the process or question, chosen by the launcher; little-endian
//	     5        body    JSON, or bytes of output
const headLen = 5

// maxBody bounds a body; the largest is a Spec, whose environment Linux lets grow to a few MB.
const maxBody = 8 << 20

// The agent's first line, after the output of login scripts, is magic and its version.
const (
	magic   = "paragon-agent "
	version = "2"
	opening = magic + version + "\n"
)

type signalBody struct{ Signal int }

type startedBody struct{ PID int }

type exitBody struct {
	Code    int
	Signal  int
	Err     string
	Elapsed time.Duration
	Report  exitreport.Report
}

// exit is how the process ended, as the launcher sees it.
func (e exitBody) exit() process.Exit {
	return process.Exit{Code: e.Code, Signal: syscall.Signal(e.Signal), Err: e.Err, Elapsed: e.Elapsed, Report: e.Report}
}

// Hello describes the agent's machine.
type Hello struct {
	Hostname string
	PID      int
	Dir      string // the agent's working directory

	// SSHConnection is $SSH_CONNECTION: the client's address and port, and the server's.
	SSHConnection string
}

// appendFrame appends a frame with a body to b.
func appendFrame(b []byte, k kind, number uint32, body []byte) []byte {
	b = append(framing.AppendHead(b, headLen+len(body)), byte(k))
	b = binary.LittleEndian.AppendUint32(b, number)
	return append(b, body...)
}

// readFrame reads one frame; the body is valid until the next call with the same buf.
func readFrame(r io.Reader, buf []byte) (k kind, number uint32, body, next []byte, err error) {
	b, err := framing.Read(r, buf, headLen+maxBody)
	if err != nil {
		return 0, 0, nil, buf, err
	}
	if len(b) < headLen {
		return 0, 0, nil, b, fmt.Errorf("launch: got a frame of %d bytes, want at least %d", len(b), headLen)
	}
	return kind(b[0]), binary.LittleEndian.Uint32(b[1:]), b[headLen:], b, nil
}

// A frameWriter writes whole frames from several goroutines.
type frameWriter struct {
	// mu guards the fields below, and the order of frames.
	mu sync.Mutex

	w      io.Writer
	buf    []byte
	broken error
}

// send writes one frame. After an error nothing is written any more, since the other end could not
// tell where a frame begins.
func (f *frameWriter) send(k kind, number uint32, body []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	f.buf = appendFrame(f.buf[:0], k, number, body)
	if _, err := f.w.Write(f.buf); err != nil {
		f.broken = err
	}
	return f.broken
}

// sendJSON writes a frame whose body is v as JSON.
func (f *frameWriter) sendJSON(k kind, number uint32, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("launch: write frame %q: %w", byte(k), err)
	}
	return f.send(k, number, b)
}
