package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
)

// ErrLost is in the chain of errors of a Client whose agent is gone.
var ErrLost = errors.New("connection to the agent lost")

// A lineReader reads lines first, and frames after them.
type lineReader struct{ *bufio.Reader }

// line reads a line with its newline; one longer than limit comes in pieces.
func (r *lineReader) line(limit int) (string, error) {
	var b []byte
	for len(b) < limit {
		c, err := r.ReadByte()
		if err != nil {
			return string(b), err
		}
		b = append(b, c)
		if c == '\n' {
			break
		}
	}
	return string(b), nil
}

// A Client is the launcher's end of an agent. Its methods may be called together.
type Client struct {
	host  string
	hello Hello
	in    io.WriteCloser

	// queue has the frames that go to the agent.
	queue frameQueue

	// stop ends the goroutine that writes.
	stop func()

	gone chan struct{}

	// mu guards the fields below.
	mu sync.Mutex

	last      uint32
	processes map[uint32]*handle
	answers   map[uint32]chan Answer
	notices   chan Notice // the newest one
	listened  bool        // somebody takes them
	lost      error       // set before gone is closed
}

// NewClient connects to the agent that reads in and writes out; host is its name in errors. The
// agent exits when the Client is closed or this process ends.
func NewClient(ctx context.Context, host string, in io.WriteCloser, out io.ReadCloser) (*Client, error) {
	stop := context.AfterFunc(ctx, func() { out.Close() })
	r := &lineReader{bufio.NewReaderSize(out, 64<<10)}
	hello, err := readHello(r)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	writing, cancel := context.WithCancel(context.Background())
	c := &Client{
		host: host, hello: hello, in: in, stop: cancel,
		queue: frameQueue{filled: make(chan struct{}, 1)}, gone: make(chan struct{}),
		processes: make(map[uint32]*handle), answers: make(map[uint32]chan Answer), notices: make(chan Notice, 1),
	}
	go c.write(writing)
	go c.read(r)
	return c, nil
}

// Hello is the agent's description of its machine.
func (c *Client) Hello() Hello { return c.hello }

// Gone is closed when the agent is gone.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Start starts a process. It returns when the process runs, or an error if it cannot be started.
func (c *Client) Start(ctx context.Context, spec process.Spec, out process.Output) (process.Handle, error) {
	h := &handle{client: c, out: out, started: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	if c.lost != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("launch: start %s on %s: %w", spec.Name, c.host, c.lost)
	}
	c.last++
	h.number = c.last
	c.processes[h.number] = h
	c.mu.Unlock()
	if err := c.send(kindStart, h.number, spec); err != nil {
		return nil, fmt.Errorf("launch: start %s on %s: %w", spec.Name, c.host, err)
	}
	select {
	case <-h.started:
		return h, nil
	case <-h.done:
		select {
		case <-h.started:
			return h, nil // it started, and has ended already
		default:
		}
		if h.exit.Lost {
			return nil, fmt.Errorf("launch: start %s on %s: %w", spec.Name, c.host, c.lost)
		}
		return nil, fmt.Errorf("launch: on %s: %s", c.host, strings.TrimPrefix(h.exit.Err, "launch: "))
	case <-ctx.Done():
		h.Signal(syscall.SIGKILL)
		return nil, fmt.Errorf("launch: start %s on %s: %w", spec.Name, c.host, context.Cause(ctx))
	}
}

// Ask sends a question to the agent and waits for the answer.
func (c *Client) Ask(ctx context.Context, q Question) (Answer, error) {
	ch := make(chan Answer, 1)
	c.mu.Lock()
	c.last++
	number := c.last
	c.answers[number] = ch
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.answers, number)
		c.mu.Unlock()
	}()
	if err := c.send(kindAsk, number, q); err != nil {
		return Answer{}, fmt.Errorf("launch: ask %s: %w", c.host, err)
	}
	select {
	case a := <-ch:
		if a.Err != "" {
			return a, fmt.Errorf("launch: on %s: %s", c.host, a.Err)
		}
		return a, nil
	case <-c.gone:
		return Answer{}, fmt.Errorf("launch: ask %s: %w", c.host, c.lost)
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("launch: ask %s: %w", c.host, context.Cause(ctx))
	}
}

// Close makes the agent stop its processes and exit. It waits for that until ctx ends.
func (c *Client) Close(ctx context.Context) error {
	c.stop()
	select {
	case <-c.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("launch: close agent on %s: %w", c.host, context.Cause(ctx))
	}
}

// send writes a request. A Client whose agent is lost gives the reason of the loss.
func (c *Client) send(k kind, number uint32, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > maxBody {
		return fmt.Errorf("%d bytes of command and environment, want at most %d", len(body), maxBody)
	}
	select {
	case <-c.gone:
		return c.lost
	default:
	}
	if !c.queue.add(appendFrame(nil, k, number, body)) {
		return fmt.Errorf("%d messages are queued already: %w", queued, ErrLost)
	}
	return nil
}

// write sends what is queued, and a ping when nothing is.
func (c *Client) write(ctx context.Context) {
	// The agent exits when its standard input ends.
	defer c.in.Close()
	ping := time.NewTicker(PingInterval)
	defer ping.Stop()
	for {
		var b []byte
		select {
		case <-c.queue.filled:
			b = c.queue.take()
		case <-ping.C:
			b = appendFrame(nil, kindPing, 0, nil)
		case <-ctx.Done():
			return
		case <-c.gone:
			return
		}
		if _, err := c.in.Write(b); err != nil {
			return // read fails, too
		}
	}
}

// read takes frames until the connection ends. Processes and questions then hear that the agent is
// lost.
func (c *Client) read(r io.Reader) {
	var buf []byte
	var err error
	for {
		var k kind
		var number uint32
		var body []byte
		if k, number, body, buf, err = readFrame(r, buf); err != nil {
			break
		}
		if err = c.deliver(k, number, body); err != nil {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = fmt.Errorf("%s: %w", c.host, ErrLost)
	if !errors.Is(err, io.EOF) {
		c.lost = fmt.Errorf("%w: %w", c.lost, err)
	}

	// It is closed before done of the processes, whose readers look at Gone.
	close(c.gone)
	for _, h := range c.processes {
		h.exit = process.Exit{Code: 255, Lost: true, Err: fmt.Sprintf("connection to %s lost", c.host)}
		close(h.done)
	}
	clear(c.processes)
	c.stop()
}

// deliver hands a frame to the process or the question of its number. One that nobody waits for any
// more is no error: an answer may cross the end of the wait.
func (c *Client) deliver(k kind, number uint32, body []byte) error {
	c.mu.Lock()
	h, a := c.processes[number], c.answers[number]
	c.mu.Unlock()
	switch {
	case k == kindLeaving:
		return c.notice(body)
	case k == kindAnswer && a != nil:
		var v Answer
		if err := json.Unmarshal(body, &v); err != nil {
			return fmt.Errorf("launch: read an answer: %w", err)
		}
		select {
		case a <- v:
		default: // a second answer
		}
	case h != nil:
		return h.deliver(k, body)
	}
	return nil
}

// A handle is a process of an agent.
type handle struct {
	client  *Client
	number  uint32
	out     process.Output
	pid     int
	started chan struct{} // closed once pid is set
	done    chan struct{} // closed once exit is set
	exit    process.Exit
}

func (h *handle) PID() int              { return h.pid }
func (h *handle) Done() <-chan struct{} { return h.done }

// Exit implements process.Handle: it waits for the end.
func (h *handle) Exit() process.Exit {
	<-h.done
	return h.exit
}

// Signal implements process.Handle.
func (h *handle) Signal(sig syscall.Signal) {
	// An agent that is gone has killed the process.
	h.client.send(kindSignal, h.number, signalBody{int(sig)})
}

// deliver takes a frame about the process, in the order in which the agent has sent them.
func (h *handle) deliver(k kind, body []byte) error {
	switch k {
	case kindStarted:
		var b startedBody
		if err := json.Unmarshal(body, &b); err != nil {
			return fmt.Errorf("launch: read start of process %d: %w", h.number, err)
		}
		select {
		case <-h.started:
			return fmt.Errorf("launch: process %d started twice", h.number)
		default:
		}
		h.pid = b.PID
		if h.out.Started != nil {
			h.out.Started(b.PID)
		}
		close(h.started)
	case kindStdout:
		write(h.out.Stdout, body)
	case kindStderr:
		write(h.out.Stderr, body)
	case kindReport:
		write(h.out.Report, body)
	case kindExit:
		var b exitBody
		if err := json.Unmarshal(body, &b); err != nil {
			return fmt.Errorf("launch: read end of process %d: %w", h.number, err)
		}
		h.client.mu.Lock()
		delete(h.client.processes, h.number)
		h.client.mu.Unlock()
		h.exit, h.out = b.exit(), process.Output{} // nothing comes after it
		close(h.done)
	}
	return nil
}

func write(w io.Writer, b []byte) {
	if w != nil {
		w.Write(b)
	}
}

// readHello skips what login scripts print, and reads the agent's first line and its Hello.
func readHello(r *lineReader) (Hello, error) {
	var before bytes.Buffer
	for {
		line, err := r.line(4096)
		if err != nil {
			return Hello{}, helloError(before.String()+line, err)
		}
		if line == opening {
			break
		}
		if theirs, ok := strings.CutPrefix(strings.TrimSpace(line), magic); ok {
			return Hello{}, fmt.Errorf("launch: the agent is of version %.20q, want %q: use the same launch program on all hosts", theirs, version)
		}
		if before.Len() < 4096 {
			before.WriteString(line)
		}
	}
	k, _, body, _, err := readFrame(r, nil)
	if err != nil {
		return Hello{}, helloError(before.String(), err)
	}
	var h Hello
	if k != kindHello {
		return Hello{}, fmt.Errorf("launch: agent began with frame %q, want %q", byte(k), byte(kindHello))
	}
	if err := json.Unmarshal(body, &h); err != nil {
		return Hello{}, fmt.Errorf("launch: read the agent's greeting: %w", err)
	}
	return h, nil
}

func helloError(before string, err error) error {
	if before = string(bytes.TrimSpace([]byte(before))); before != "" {
		return fmt.Errorf("launch: no agent answered; the host printed: %s: %w", before, err)
	}
	return fmt.Errorf("launch: no agent answered: %w", err)
}

// Leaving has the newest notice of the agent. Whoever calls it sees to the processes of a host that
// is taken away: an agent that was told to end then keeps them until they have ended or its time is
// over.
func (c *Client) Leaving() <-chan Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listened = true; len(c.notices) > 0 {
		// An agent that is gone needs no answer.
		c.send(kindNoted, 0, nil)
	}
	return c.notices
}

// notice takes a notice of the agent in place of the one before.
func (c *Client) notice(body []byte) error {
	n, err := decodeNotice(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.notices:
	default:
	}

	// There is room for one, and only this goroutine fills it.
	c.notices <- n
	if c.listened {
		c.send(kindNoted, 0, nil)
	}
	return nil
}
