package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Names of the variables by which a trial's process finds its search.
const (
	AddressVariable = "PARAGON_TUNE_ADDRESS" // unix:PATH or tcp:HOST:PORT
	TokenVariable   = "PARAGON_TUNE_TOKEN"
	// HostVariable is launch's: the host of the process, as launch calls it.
	HostVariable = "DMLC_NODE_HOST"
)

// CommandFolder stands for the folder of a command's state in the words of a command that runs on
// another host. A shell needs it within single quotes.
const CommandFolder = "<folder of the checkpoint>"

// dialTimeout bounds the connection and registration with the search.
const dialTimeout = 30 * time.Second

// A Client is the end of a trial's process. Its methods may be called concurrently; requests are
// serialized.
type Client struct {
	task           Task
	rank           int
	token, address string
	// unshared says that this machine lacks the files of the search's.
	unshared bool

	// mu guards the connection: there is one request at a time.
	mu   sync.Mutex
	conn net.Conn
	wire *wire
	// err is why the connection is broken; nil: it is not.
	err error
}

// Dial connects to the search that the environment names (lookup is os.LookupEnv). found is false
// if it names none.
func Dial(ctx context.Context, lookup func(string) (string, bool)) (c *Client, found bool, err error) {
	c, found, err = connect(ctx, lookup)
	if c == nil {
		return nil, found, err
	}
	m, err := c.register(hello{Version: version, Token: c.token, Rank: c.rank})
	if err == nil && m.Task == nil {
		err = errors.New("got another answer, want a task")
	}
	if err != nil {
		return nil, true, c.unregistered(err)
	}
	c.task = *m.Task
	if !c.task.Marker.there() {
		c.unshared, c.task.Folder = true, ""
	}
	return c, true, nil
}

// Hold asks the search that the environment names for a slot, and waits until it has one. It holds
// the slot until this process and all that it starts have ended, also after exec.
func Hold(ctx context.Context, lookup func(string) (string, bool)) (Held, error) {
	c, found, err := connect(ctx, lookup)
	if err != nil {
		return Held{}, err
	}
	if !found {
		return Held{}, fmt.Errorf("tune: slot: %s is not set: only launch tune starts processes in slots", AddressVariable)
	}
	host, _ := lookup(HostVariable)
	if host == "" {
		return Held{}, c.unregistered(fmt.Errorf("%s is not set", HostVariable))
	}
	m, err := c.register(hello{Version: version, Token: c.token, Rank: c.rank, Host: host})
	if err == nil && m.Held == nil {
		err = errors.New("got another answer, want a slot")
	}
	if err == nil {
		err = keepOpen(c.conn)
	}
	if err != nil {
		return Held{}, c.unregistered(err)
	}
	return *m.Held, nil
}

// register says who this is.
func (c *Client) register(h hello) (message, error) {
	_ = c.conn.SetDeadline(time.Now().Add(dialTimeout))
	m, err := c.ask(message{Hello: &h})
	_ = c.conn.SetDeadline(time.Time{})
	if errors.Is(err, ErrGone) {
		err = fmt.Errorf("%w: does it run, and is it of the same version of Paragon as this program?", err)
	}
	return m, err
}

// unregistered closes a connection on which the process could not register.
func (c *Client) unregistered(err error) error {
	c.conn.Close()
	return fmt.Errorf("tune: rank %d: register with the search at %s: %w", c.rank, c.address, err)
}

// connect connects to the search. c is nil where the environment names none.
func connect(ctx context.Context, lookup func(string) (string, bool)) (c *Client, found bool, err error) {
	address, found := lookup(AddressVariable)
	if !found || address == "" {
		return nil, false, nil
	}
	token, _ := lookup(TokenVariable)
	rank := 0
	for _, name := range []string{"PARAGON_RANK", "DMLC_TASK_ID"} {
		if text, ok := lookup(name); ok {
			if rank, err = strconv.Atoi(text); err != nil || rank < -1 {
				return nil, true, fmt.Errorf("tune: %s is %q, want a rank", name, text)
			}
			if rank >= 0 {
				break
			}
			// -1 is a worker that joins a running job. Its number counts.
			rank = 0
		}
	}
	if network, _, ok := strings.Cut(address, ":"); !ok || network != "unix" && network != "tcp" {
		return nil, true, fmt.Errorf("tune: %s is %q, want unix:PATH or tcp:HOST:PORT", AddressVariable, address)
	}
	c = &Client{rank: rank, token: token, address: address}
	if c.conn, err = c.dial(ctx); err != nil {
		return nil, true, fmt.Errorf("tune: reach the search at %s: %w", address, err)
	}
	c.wire = newWire(c.conn)
	return c, true, nil
}

// dial connects to the search's address.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	network, where, _ := strings.Cut(c.address, ":")
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	return d.DialContext(ctx, network, where)
}

// Task is the task of the process. Its Folder is "" if the process does not have the search's
// files.
func (c *Client) Task() Task { return c.task }

// Rank is the process's among the trial's workers.
func (c *Client) Rank() int { return c.rank }

// Report reports metrics and waits for the decision without a timeout: the search terminates the
// process if it must end.
func (c *Client) Report(ctx context.Context, step int, metrics map[string]float64) (Answer, error) {
	var answer Answer
	err := c.do(ctx, func() error {
		m, err := c.ask(message{Report: &report{step, metrics}})
		if err != nil {
			return err
		}
		if m.Answer == nil {
			return c.breaks("got another message, want the answer to a report")
		}
		answer = *m.Answer
		return nil
	})
	if err != nil {
		return Answer{}, fmt.Errorf("tune: trial %d rank %d: report step %d: %w", c.task.Trial, c.rank, step, err)
	}
	return answer, nil
}

// Checkpoint lets write fill a folder, which is saved as the trial's state after the step. Without
// the search's files it is a temporary folder of this machine, which is copied to the search. On
// ranks other than 0 (of an elastic trial: other than that of the worker that was there first) it
// does nothing.
func (c *Client) Checkpoint(ctx context.Context, step int, write func(dir string) error) error {
	if c.rank != 0 && !c.task.Elastic {
		return nil
	}
	err := c.do(ctx, func() error {
		m, err := c.ask(message{Checkpoint: &checkpoint{step}})
		if err != nil {
			return err
		}
		if m.Folder == nil {
			return c.breaks("got another message, want the folder of a checkpoint")
		}
		if m.Folder.Dir == "" {
			return nil
		}
		var failed error
		if c.unshared {
			failed = c.save(ctx, write)
		} else {
			failed = write(m.Folder.Dir)
		}
		done := written{Copied: c.unshared}
		if failed != nil {
			done.Error = failed.Error()
		}
		m, err = c.ask(message{Written: &done})
		switch {
		case failed != nil:
			return failed
		case err != nil:
			return err
		case m.Kept == nil:
			return c.breaks("the search did not confirm the checkpoint")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("tune: trial %d: checkpoint of step %d: %w", c.task.Trial, step, err)
	}
	return nil
}

// Ready says that the folder of the command's state is at dir on this host, with the files to go on
// from. The first rank on each host calls it, for the others there.
func (c *Client) Ready(ctx context.Context, dir string) error {
	err := c.do(ctx, func() error {
		m, err := c.ask(message{Ready: &folder{dir}})
		if err == nil && m.Kept == nil {
			err = c.breaks("got another message, want that the folder is known")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("tune: trial %d: tell the other ranks the folder of the checkpoint: %w", c.task.Trial, err)
	}
	return nil
}

// Await waits for Ready of the first rank on this host, and returns the folder.
func (c *Client) Await(ctx context.Context) (dir string, err error) {
	err = c.do(ctx, func() error {
		m, err := c.ask(message{Await: &struct{}{}})
		switch {
		case err != nil:
			return err
		case m.Folder == nil || m.Folder.Dir == "":
			return c.breaks("got another message, want a folder")
		}
		dir = m.Folder.Dir
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("tune: trial %d rank %d: wait for the folder of the checkpoint: %w", c.task.Trial, c.rank, err)
	}
	return dir, nil
}

// Others waits until the other ranks on this host, whose first one calls it, have ended: they use
// the folder of Ready.
func (c *Client) Others(ctx context.Context) error {
	err := c.do(ctx, func() error {
		m, err := c.ask(message{Others: &struct{}{}})
		if err == nil && m.Kept == nil {
			err = c.breaks("got another message, want that the other ranks have ended")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("tune: trial %d rank %d: wait for the other ranks on its host: %w", c.task.Trial, c.rank, err)
	}
	return nil
}

// Done reports how the process ended, and closes the connection.
func (c *Client) Done(ctx context.Context, d Done) error {
	err := c.do(ctx, func() error {
		_ = c.conn.SetDeadline(time.Now().Add(dialTimeout))
		_, err := c.ask(message{Done: &d})
		return err
	})
	if closeErr := c.conn.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("tune: trial %d rank %d: report its end: %w", c.task.Trial, c.rank, err)
	}
	return nil
}

// do holds the connection for f, and breaks it if ctx ends meanwhile.
func (c *Client) do(ctx context.Context, f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	err := f()
	if !stop() {
		c.err = context.Cause(ctx)
		return c.err
	}
	return err
}

// ask sends a request and receives the answer. After an error in the answer the connection remains
// usable.
func (c *Client) ask(m message) (message, error) {
	if err := c.wire.send(m); err != nil {
		if _, long := tooLong(err); long {
			return message{}, err
		}
		return message{}, c.breaks("send: " + err.Error())
	}
	got, err := c.wire.receive()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return message{}, c.breaks("the search closed the connection")
	}
	if err != nil {
		return message{}, c.breaks("receive: " + err.Error())
	}
	if got.Error != nil {
		return message{}, &refusal{*got.Error}
	}
	return got, nil
}

// ErrGone is in the chain of the error of a search that cannot be reached any more.
var ErrGone = errors.New("the search is gone")

// breaks takes note that the connection is of no more use. The first reason stays.
func (c *Client) breaks(text string) error {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %w", text, ErrGone)
	}
	return c.err
}
