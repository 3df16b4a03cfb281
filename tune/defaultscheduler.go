package tune

import (
	"errors"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// chooseScheduler sets Scheduler to the default, unless the study began with FIFO. log is the path
// of its log; "" is none.
func (c *Config) chooseScheduler(fsys vfs.FS, log string) {
	if c.Scheduler == nil && c.DefaultScheduler != nil && (log == "" || !beganWithFIFO(fsys, log)) {
		c.Scheduler = c.DefaultScheduler
	}
}

// beganWithFIFO says whether there is a log whose study began with FIFO.
func beganWithFIFO(fsys vfs.FS, path string) bool {
	fifo, enough := false, errors.New("the header is enough")
	// An error is left to the next reader of the log, which reports it.
	_, _ = readLog(fsys, path, func(e *Event) error {
		fifo = e.Header != nil && e.Header.Scheduler == typeOf(nil, FIFO{})
		return enough
	})
	return fifo
}
