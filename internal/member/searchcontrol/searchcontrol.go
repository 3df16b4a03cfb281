// Package searchcontrol lets commands ask a search that runs on this machine: about its hosts, and
// to add or remove one.
//
// The search listens at a loopback address. The file control.json in the study's folder has the
// address and a token without which nothing is answered. Only the user of the search can read the
// file. A connection carries one request and its answer, JSON in a frame each (package framing):
//
//	→ {"token":"...","op":"add","host":"d3 slots=4"}
//	← {"text":"..."} or {"error":"..."}
package searchcontrol

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
	"github.com/paragon-train/paragon/internal/store/unauthenticated"
)

// The operations.
const (
	// Hosts asks which hosts there are.
	Hosts = "hosts"

	// Add adds a host: Request.Host is a line of a hosts file.
	Add = "add"

	// Remove removes the host that Request.Host names.
	Remove = "remove"
)

// A Request is what a search is asked for.
type Request struct {
	Op   string `json:"op"`
	Host string `json:"host,omitempty"`
}

type message struct {
	Token string `json:"token"`
	Request
}

type answer struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// A place is what control.json says.
type place struct {
	// Version is that of the frames.
	Version int `json:"version"`

	// Machine is the name of the host on which the search runs.
	Machine string `json:"machine"`

	PID     int    `json:"pid"`
	Address string `json:"address"`
	Token   string `json:"token"`
}

const (
	version = 2

	// maxRequest is the largest request, in bytes.
	maxRequest = 64 << 10

	maxAnswer = 4 << 20
	maxPlace  = 64 << 10

	// maxUnauthenticated is how many connections may be open that have not shown the key.
	maxUnauthenticated = 64

	// readTimeout bounds the time in which a request that has begun must have come.
	readTimeout = 5 * time.Second

	// askTimeout bounds the wait for an answer. To add a host takes a while.
	askTimeout = 2 * time.Minute
)

// FileName names the file in the study's folder that has the address and the token.
const FileName = "control.json"

// ErrNone is in the chain of the error of Ask where no search answers.
var ErrNone = errors.New("no search answers")

// A Server answers for one search.
type Server struct {
	file   string
	token  string
	answer func(context.Context, Request) (string, error)
	ln     net.Listener
	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup
	// unauthenticated are the connections whose token has not come yet: every user of this
	// machine can connect.
	unauthenticated unauthenticated.Conns
}

// Serve answers requests about the search in the folder until Close. answer is called from several
// goroutines; its ctx ends with Close.
func Serve(folder string, answer func(context.Context, Request) (string, error)) (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("searchcontrol: %w", err)
	}
	s := &Server{file: filepath.Join(folder, FileName), token: rand.Text(), answer: answer, ln: ln, unauthenticated: unauthenticated.Conns{Most: maxUnauthenticated}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.write(); err != nil {
		return nil, errors.Join(fmt.Errorf("searchcontrol: %w", err), ln.Close())
	}
	s.all.Go(s.accept)
	return s, nil
}

// write makes control.json, whole or not at all.
func (s *Server) write() error {
	p := place{Version: version, PID: os.Getpid(), Address: s.ln.Addr().String(), Token: s.token}
	p.Machine, _ = os.Hostname()
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}

	// CreateTemp makes a file that only this user may read.
	f, err := os.CreateTemp(filepath.Dir(s.file), "."+FileName+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Close ends the server.
func (s *Server) Close() error {
	s.cancel()
	err := errors.Join(os.Remove(s.file), s.ln.Close())
	s.all.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}

		// There may be too many open files, for example. It can be over in a moment.
		if err != nil {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.ctx.Done():
			}
			continue
		}
		if out := s.unauthenticated.Enter(c); out != nil {
			if out.Close(); out == c {
				continue
			}
		}
		s.all.Go(func() { s.serve(c) })
	}
}

// serve answers the request of a connection.
func (s *Server) serve(c net.Conn) {
	defer c.Close()
	defer s.unauthenticated.Leave(c)
	defer context.AfterFunc(s.ctx, func() { c.Close() })()
	_ = c.SetDeadline(time.Now().Add(readTimeout))
	var m message
	// The reader takes all of a short line, so that its sender gets the answer.
	in := bufio.NewReader(c)
	err := framing.ReadJSON(in, &m, maxRequest)
	if long := (*framing.LengthError)(nil); errors.As(err, &long) && long.Line() {
		_ = json.NewEncoder(c).Encode(answer{Error: "the search was started by a newer version of launch: use that one"})
		return
	}
	if err != nil || subtle.ConstantTimeCompare([]byte(m.Token), []byte(s.token)) != 1 {
		return
	}
	s.unauthenticated.Leave(c)
	ctx, cancel := context.WithTimeout(s.ctx, askTimeout)
	defer cancel()
	var a answer
	if a.Text, err = s.answer(ctx, m.Request); err != nil {
		a = answer{Error: err.Error()}
	}
	// Even an answer that has taken all the time gets some to be sent.
	_ = c.SetDeadline(time.Now().Add(readTimeout))
	_ = framing.WriteJSON(c, a, maxAnswer)
}

// Ask asks the search in the folder. What the search refuses is an error, too; ErrNone is in the
// chain of one that no search answered.
func Ask(ctx context.Context, folder string, q Request) (string, error) {
	p, err := readPlace(folder)
	if err != nil {
		return "", err
	}
	if p.Version != version {
		which := "an older"
		if p.Version > version {
			which = "a newer"
		}
		return "", fmt.Errorf("the search in %s was started by %s version of launch (%s of version %d, want %d): use that one", folder, which, FileName, p.Version, version)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout+readTimeout, fmt.Errorf("no answer within %v", askTimeout+readTimeout))
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", p.Address)
	if err != nil {
		if here, _ := os.Hostname(); here != p.Machine {
			return "", fmt.Errorf("%w in %s: it was started on %s (process %d): ask there", ErrNone, folder, p.Machine, p.PID)
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return "", fmt.Errorf("%w in %s: process %d, which ran it, is gone", ErrNone, folder, p.PID)
		}
		return "", fmt.Errorf("%w in %s: %w", ErrNone, folder, err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	var a answer
	if err = framing.WriteJSON(c, message{p.Token, q}, maxRequest); err == nil {
		err = framing.ReadJSON(c, &a, maxAnswer)
	}
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the search in %s: %w", folder, context.Cause(ctx))
	case err != nil:
		return "", fmt.Errorf("%w in %s: %w", ErrNone, folder, err)
	case a.Error != "":
		return "", errors.New(a.Error)
	}
	return a.Text, nil
}

func readPlace(folder string) (p place, err error) {
	f, err := os.Open(filepath.Join(folder, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("%w in %s: no search that uses hosts runs there; want the folder of one, such as runs/mnist", ErrNone, folder)
	}
	if err != nil {
		return p, err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxPlace)).Decode(&p); err != nil {
		return p, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return p, nil
}
