package agent

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/exitreport"
	"github.com/paragon-train/paragon/internal/process"
)

// A kind says what a frame holds. Frames of kinds that a side does not know are skipped.
type kind uint8

const (
	// launcher to agent
	kindStart  kind = 'S' // process.Spec: start it under the frame's number
	kindSignal kind = 'K' // signalBody: to the process of that number and its group
	kindPing   kind = 'P' // nothing: the launcher lives
	kindAsk    kind = 'Q' // Question
	kindNoted  kind = 'N' // nothing: it has taken the notice, and lets the processes leave

	// agent to launcher
	kindHello   kind = 'h' // Hello: the first frame
	kindStarted kind = 's' // startedBody
	kindStdout  kind = 'o' // bytes
	kindStderr  kind = 'e' // bytes
	kindReport  kind = 'r' // bytes
	kindExit    kind = 'x' // exitBody: the last frame of a number
	kindAnswer  kind = 'a' // Answer
	kindLeaving kind = 'l' // Notice
)

// headLen is the length of a frame's head:
//
//	offset  size  field
//	     0     1  kind
//	     1     4  number  of the process or question, chosen by the launcher; little-endian
//	     5     4  n       length of the body
//	     9     n  body    JSON, or bytes of output
const headLen = 9

// maxBody bounds a body; the largest is a Spec, whose environment Linux lets grow to a few MB.
const maxBody = 8 << 20

// magic is the agent's first line, after the output of login scripts.
const magic = "paragon-agent 1\n"

type signalBody struct{ Signal int }

type startedBody struct{ PID int }

type exitBody struct {
	Code    int
	Signal  int
	Err     string
	Elapsed time.Duration
	Report  exitreport.Report
}

func (e exitBody) exit() process.Exit {
	return process.Exit{Code: e.Code, Signal: syscall.Signal(e.Signal), Err: e.Err, Elapsed: e.Elapsed, Report: e.Report}
}

// Hello describes the agent's machine.
type Hello struct {
	Hostname      string
	PID           int
	Dir           string // the agent's working directory
	SSHConnection string // $SSH_CONNECTION: client address and port, server address and port
}

func appendFrame(b []byte, k kind, number uint32, body []byte) []byte {
	b = append(b, byte(k))
	b = binary.LittleEndian.AppendUint32(b, number)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...)
}

// readFrame reads one frame; the body is valid until the next call with the same buf.
func readFrame(r io.Reader, buf []byte) (k kind, number uint32, body, next []byte, err error) {
	var head [headLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, nil, buf, err
	}
	n := binary.LittleEndian.Uint32(head[5:])
	if n > maxBody {
		return 0, 0, nil, buf, fmt.Errorf("launch: read frame %q: body of %d bytes, want at most %d", head[0], n, maxBody)
	}
	if int(n) > cap(buf) {
		buf = make([]byte, n)
	}
	body = buf[:n]
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, 0, nil, buf, fmt.Errorf("launch: read frame %q of %d bytes: %w", head[0], n, err)
	}
	return kind(head[0]), binary.LittleEndian.Uint32(head[1:]), body, buf, nil
}

// A frameWriter writes whole frames from several goroutines.
type frameWriter struct {
	mu     sync.Mutex // guards the rest
	w      io.Writer
	buf    []byte
	broken error
}

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

func (f *frameWriter) sendJSON(k kind, number uint32, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("launch: write frame %q: %w", byte(k), err)
	}
	return f.send(k, number, b)
}
