package bridge

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"syscall"
)

// A conn is the bridge's end of the socket pair. Packets may be sent from any goroutine.
type conn struct {
	socket *net.UnixConn
}

// errTooLong ends a session whose peer sends a packet of more than maxPacket bytes.
var errTooLong = fmt.Errorf("bridge: %w: a packet of more than %d bytes came", errProtocol, maxPacket)

// receive reads a packet into b, which has maxPacket+1 bytes. io.EOF: the other end is closed.
func (c *conn) receive(b []byte) (int, error) {
	n, err := c.socket.Read(b)
	switch {
	case err != nil:
		return 0, err
	case n > maxPacket:
		return 0, errTooLong
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// send sends a packet, with a descriptor if fd is not -1.
func (c *conn) send(packet []byte, fd int) error {
	var rights []byte
	if fd >= 0 {
		rights = syscall.UnixRights(fd)
	}
	if len(rights) == 0 {
		_, err := c.socket.Write(packet)
		return err
	}
	_, _, err := c.socket.WriteMsgUnix(packet, rights, nil)
	return err
}

// sendJSON sends a packet of JSON behind a head, which begins with the packet's kind.
func (c *conn) sendJSON(head string, content any, fd int) error {
	packet, err := encode(head, content)
	if err != nil {
		return err
	}
	return c.send(packet, fd)
}

// encode makes a packet of JSON behind a head.
func encode(head string, content any) ([]byte, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("bridge: encode a packet: %w", err)
	}
	if len(head)+len(text) > maxPacket {
		return nil, fmt.Errorf("bridge: a packet of %d bytes, want at most %d", len(head)+len(text), maxPacket)
	}
	return append([]byte(head), text...), nil
}
