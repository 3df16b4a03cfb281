package transport

import (
	"net"
	"time"
)

// A localConn is a connection within the host, to a process of the same user. Once both ends have proved the secret it becomes
// what the end that dialled offers. The connection that it becomes closes it.
type localConn interface {
	net.Conn
	offer() (net.Conn, error)
	answerOffer() (net.Conn, error)
}

// flagsFor is what this end wants to do on a connection.
func (cfg *Config) flagsFor(nc net.Conn) byte {
	if _, local := nc.(localConn); local || cfg.Identity == nil {
		return 0
	}
	return helloTLS
}

// handshakeServer is all that comes before the first frame, for the end that dialled. It returns the connection for the frames, which
// closes nc; after an error nc is still to be closed.
func (cfg *Config) handshakeServer(nc net.Conn, deadline time.Time) (net.Conn, error) {
	if err := nc.SetDeadline(deadline); err != nil {
		return nil, err
	}
	flags := cfg.flagsFor(nc)
	if err := proveToServer(nc, cfg.Secret, flags); err != nil {
		return nil, err
	}
	var err error
	conn := nc
	if local, ok := nc.(localConn); ok {
		conn, err = local.offer()
	} else if flags&helloTLS != 0 {
		conn, err = secureToServer(nc, cfg.Identity.Client(cfg.Peers...))
	}
	if err != nil {
		return nil, err
	}
	if err := nc.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// handshakeClient is the same for the end that was dialled. It returns the client's role, too, where a certificate tells it.
func (cfg *Config) handshakeClient(nc net.Conn, deadline time.Time) (conn net.Conn, role string, err error) {
	if err := nc.SetDeadline(deadline); err != nil {
		return nil, "", err
	}
	flags := cfg.flagsFor(nc)
	if err := proveToClient(nc, cfg.Secret, flags); err != nil {
		return nil, "", err
	}
	conn = nc
	if local, ok := nc.(localConn); ok {
		conn, err = local.answerOffer()
	} else if flags&helloTLS != 0 {
		conn, role, err = secureToClient(nc, cfg.Identity.Server(cfg.Peers...))
	}
	if err != nil {
		return nil, "", err
	}
	if err := nc.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, "", err
	}
	return conn, role, nil
}
