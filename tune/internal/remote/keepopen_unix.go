//go:build unix

package remote

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// keepOpen keeps a connection open for as long as this process and its children live.
func keepOpen(conn net.Conn) error {
	x, ok := conn.(interface{ File() (*os.File, error) })
	if !ok {
		return fmt.Errorf("a connection of type %T has no file", conn)
	}
	f, err := x.File()
	if err != nil {
		return err
	}
	defer f.Close()
	// A copy that is not closed by exec, and that nothing in this process closes.
	_, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 0)
	return err
}
