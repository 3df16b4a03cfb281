package transport

import (
	"net"
	"time"
)

// A localConn is a connection within the host, to a process of the same user. After the secret's
// proofs it becomes the connection that the dialling end offers, which closes it.
type localConn interface {
	net.Conn
	offer() (net.Conn, error)
	answerOffer() (net.Conn, error)
}

// flagsFor returns the flags that this end wants on a connection.
func (cfg *Config) flagsFor(nc net.Conn) byte {
	if _, local := nc.(localConn); local || cfg.Identity == nil {
		return 0
	}
	return helloTLS
}

// handshakeServer is the whole handshake of the dialling end. It returns the connection for frames,
// which closes nc; after an error the caller must close nc.
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

// handshakeClient is the same for the accepting end. It also returns the client's role, from its
// certificate; empty without TLS.
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
