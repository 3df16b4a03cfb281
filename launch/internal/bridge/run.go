package bridge

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
)

// files are the descriptors that Python gives the bridge.
type files struct {
	socket, parent, stderr int
}

// parse reads the arguments of `launch role bridge`.
func parse(args []string) (f files, err error) {
	set := flag.NewFlagSet("launch role bridge", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.IntVar(&f.socket, "socket", -1, "descriptor of the bridge's end of the socket pair")
	set.IntVar(&f.parent, "parent", -1, "descriptor of a pidfd of the Python process")
	set.IntVar(&f.stderr, "stderr", -1, "descriptor that becomes the standard error after the hello")
	if err := set.Parse(args); err != nil {
		return files{}, err
	}
	if f.socket < 0 || set.NArg() > 0 {
		return files{}, fmt.Errorf("got %q, want --socket N --parent N --stderr N; Python's package paragon starts this program", args)
	}
	return f, nil
}

// Run is `launch role bridge`: it serves one Python process, its parent, and returns the exit code.
func Run(args []string, log *slog.Logger) int {
	f, err := parse(args)
	if err != nil {
		log.Error("launch: role bridge: " + err.Error())
		return 2
	}
	if err := run(f, log); err != nil {
		log.Error("launch: role bridge: " + err.Error())
		return 1
	}
	return 0
}

func run(f files, log *slog.Logger) error {
	if err := supported(); err != nil {
		return err
	}
	// Python's end ends the bridge, and Python decides what a signal means: a launcher or a
	// cluster may send one to all processes of the job's step at once.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	c, err := connect(f.socket)
	if err != nil {
		return err
	}
	s := newSession(c, log, os.Getenv)
	if err := s.hello(); err != nil {
		return err
	}
	if err := switchStderr(f.stderr); err != nil {
		return err
	}
	stop, err := watchParent(f.parent, func() { s.end(s.gone()) })
	if err != nil {
		return err
	}
	defer stop()
	return s.serve()
}

// connect takes over the bridge's end of the socket pair.
func connect(fd int) (*conn, error) {
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "socket")
	if file == nil {
		return nil, fmt.Errorf("bridge: --socket %d is no descriptor", fd)
	}
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("bridge: --socket %d: %w", fd, err)
	}
	socket, ok := c.(*net.UnixConn)
	if !ok || c.LocalAddr().Network() != "unixpacket" {
		c.Close()
		return nil, fmt.Errorf("bridge: --socket %d is a %s socket, want one of a pair of SOCK_SEQPACKET", fd, c.LocalAddr().Network())
	}
	return &conn{socket}, nil
}
