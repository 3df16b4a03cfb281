package remote

import (
	"errors"
	"net"
)

// keepOpen is an error on Windows, where no process takes another one's place with its connections.
func keepOpen(net.Conn) error { return errors.New("a slot cannot be held on Windows") }
