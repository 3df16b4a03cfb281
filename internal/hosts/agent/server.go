//go:build unix

package agent

import (
	"os/exec"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/files/scratch"
)

// server is one agent at work.
type server struct {
	cfg Config
	out *frameWriter
	exitReports

	// mu guards children. It is held from a fork until the child is in the map.
	mu       sync.Mutex
	children map[uint32]*child

	// running has the children that live, and told those whose exit was not sent yet.
	running, told sync.WaitGroup
}

type frame struct {
	kind   kind
	number uint32
	body   []byte
}

// exitReports is the folder for what the children say of their ends (package exitreport). It is
// made for the first child.
type exitReports struct {
	once sync.Once

	// folder has the files of the reports; nil: there is no folder.
	folder *scratch.Folder
}

// A child is a process that the agent started; it leads a session and process group of its own.
type child struct {
	cmd     *exec.Cmd
	started time.Time

	mu sync.Mutex

	// reaped says that the process ID may be in use again.
	reaped bool

	// stopping says that it got SIGTERM or the like. killed is closed when SIGKILL follows.
	stopping bool
	killed   chan struct{}
}
