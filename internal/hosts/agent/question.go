package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
)

// A Question asks a machine about itself, for preflight checks and for preparing a folder.
type Question struct {
	// MakeDir is a folder to be made, with its parents. With Own it must belong to this user,
	// since rsync -a sets its times.
	MakeDir string
	Own     bool

	// Remove are files, and folders, which are removed if they are empty, in this order.
	Remove []string

	// Programs are looked up in PATH.
	Programs []string

	// Listen is host:port to listen on for Hold. Each connection is greeted.
	Listen string
	Hold   time.Duration

	// Dial are addresses to connect to, and to be greeted at.
	Dial []string

	// Hardware asks for processors and GPUs.
	Hardware bool
}

// An Answer answers a Question.
type Answer struct {
	// Err says why the Question as a whole, or MakeDir, failed.
	Err string

	// Made are the folders that MakeDir made, the innermost first.
	Made []string

	// Left are those of Remove that still exist. RemoveErr says why the first of them could not be
	// removed; a folder that is not empty is no error.
	Left      []string
	RemoveErr string

	// Time is the time by the machine's clock.
	Time time.Time

	// Missing are the Programs that are not there.
	Missing []string

	// Listening is the address, with its port, and ListenErr why there is none.
	Listening string
	ListenErr string

	// Dial says for each address why it could not be reached, or "".
	Dial map[string]string

	// CPUs are the numbers of the processors that the agent may use, and GPUs are UUIDs. GPUErr
	// says why the GPUs could not be listed.
	CPUs   []int
	GPUs   []string
	GPUErr string
}

const greeting = "paragon\n"

// dialTimeout bounds each connection that a Question asks for.
const dialTimeout = 5 * time.Second

// answer answers a question. What cannot be answered is said in the Answer, and the rest is
// answered all the same.
func answer(ctx context.Context, body []byte, listGPUs func() ([]string, error)) Answer {
	var q Question
	if err := json.Unmarshal(body, &q); err != nil {
		return Answer{Err: fmt.Sprintf("launch: agent: read question: %v", err)}
	}
	a := Answer{Time: time.Now()}
	if q.MakeDir != "" {
		a.makeDir(q.MakeDir, q.Own)
	}
	a.remove(q.Remove)
	for _, p := range q.Programs {
		if _, err := exec.LookPath(p); err != nil {
			a.Missing = append(a.Missing, p)
		}
	}
	if q.Hardware {
		var err error
		a.CPUs = affinity.Own()
		if a.GPUs, err = listGPUs(); err != nil {
			a.GPUErr = err.Error()
		}
	}
	if q.Listen != "" {
		addr, err := Greet(ctx, q.Listen, q.Hold)
		if a.Listening = addr; err != nil {
			a.ListenErr = err.Error()
		}
	}
	if len(q.Dial) > 0 {
		a.Dial = dialAll(ctx, q.Dial)
	}
	return a
}

// makeDir makes the folder of a question, and takes note of the folders that were not there, so
// that they can be removed.
func (a *Answer) makeDir(path string, own bool) {
	var err error
	if a.Made, err = makeDir(path); err == nil && own {
		err = checkOwn(path)
	}
	if err != nil {
		a.Err = err.Error()
	}
}

// remove removes files and empty folders, and says which are left.
func (a *Answer) remove(paths []string) {
	for _, path := range paths {
		err := os.Remove(path)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			a.Left = append(a.Left, path)
		}
		if a.RemoveErr == "" && !errors.Is(err, syscall.ENOTEMPTY) {
			a.RemoveErr = err.Error()
		}
	}
}

// dialAll says for each address why nobody was met there, or "".
func dialAll(ctx context.Context, addresses []string) map[string]string {
	found := make(map[string]string)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, addr := range addresses {
		all.Go(func() {
			var text string
			if err := CheckGreeting(ctx, addr); err != nil {
				text = err.Error()
			}
			mu.Lock()
			found[addr] = text
			mu.Unlock()
		})
	}
	all.Wait()
	return found
}

// makeDir is os.MkdirAll; it returns the folders that it made, the innermost first.
func makeDir(path string) (made []string, err error) {
	var missing []string
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		missing = append(missing, p)
	}
	for _, p := range slices.Backward(missing) {
		if os.Mkdir(p, 0o777) == nil {
			made = slices.Insert(made, 0, p)
		}
	}
	return made, os.MkdirAll(path, 0o777)
}

// checkOwn checks that a folder belongs to this user: only its owner may set its modification time.
func checkOwn(path string) error {
	info, err := os.Stat(path)
	if err == nil {
		err = os.Chtimes(path, time.Time{}, info.ModTime())
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s belongs to another user, so rsync cannot set its times; choose a folder of your own", path)
	}
	return err
}

// Greet listens on addr in the background until hold has passed or ctx ends, and sends a greeting
// on each connection. It returns the address with its port.
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
		err = errors.New("another program answered")
	}
	return err
}
