package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"
)

// A Question asks a machine about itself, for preflight checks and for preparing a folder.
type Question struct {
	MakeDir  string        // make this folder and its parents
	Programs []string      // which of these are in PATH?
	Listen   string        // listen on host:port for Hold, and greet who connects
	Hold     time.Duration // how long to listen
	Dial     []string      // connect to these and wait for the greeting
}

// An Answer is the agent's.
type Answer struct {
	Err       string            // the Question as a whole, or MakeDir, came to nothing
	Time      time.Time         // the machine's clock
	Missing   []string          // Programs that are not there
	Listening string            // the address, with its port
	ListenErr string            // why it could not listen
	Dial      map[string]string // for each address why it could not be reached, or ""
}

const greeting = "paragon\n"

// dialTimeout bounds each connection that a Question asks for.
const dialTimeout = 5 * time.Second

func answer(ctx context.Context, body []byte) Answer {
	var q Question
	if err := json.Unmarshal(body, &q); err != nil {
		return Answer{Err: fmt.Sprintf("launch: agent: read question: %v", err)}
	}
	a := Answer{Time: time.Now()}
	if q.MakeDir != "" {
		if err := os.MkdirAll(q.MakeDir, 0o777); err != nil {
			a.Err = err.Error()
		}
	}
	for _, p := range q.Programs {
		if _, err := exec.LookPath(p); err != nil {
			a.Missing = append(a.Missing, p)
		}
	}
	if q.Listen != "" {
		addr, err := Greet(ctx, q.Listen, q.Hold)
		if a.Listening = addr; err != nil {
			a.ListenErr = err.Error()
		}
	}
	if len(q.Dial) > 0 {
		a.Dial = make(map[string]string)
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, addr := range q.Dial {
			all.Go(func() {
				var text string
				if err := CheckGreeting(ctx, addr); err != nil {
					text = err.Error()
				}
				mu.Lock()
				a.Dial[addr] = text
				mu.Unlock()
			})
		}
		all.Wait()
	}
	return a
}

// Greet listens on addr in the background until hold has passed or ctx ends, and greets everybody who connects. It returns
// the address with its port.
func Greet(ctx context.Context, addr string, hold time.Duration) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, hold)
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		defer cancel()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(dialTimeout))
			io.WriteString(c, greeting)
			c.Close()
		}
	}()
	return l.Addr().String(), nil
}

// CheckGreeting connects to an address where Greet listens.
func CheckGreeting(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(dialTimeout))
	b, err := io.ReadAll(io.LimitReader(c, 64))
	if err == nil && string(b) != greeting {
		err = errors.New("somebody else answered there")
	}
	return err
}
