// Package transport carries frames of package wire between processes: a Client sends requests and a
// Server answers them, possibly much later and in another order.
//
// A Client keeps a few connections to one address and may be used by any number of goroutines. A
// Call ends with the answer, with the context, or with ErrConnection when the connection was lost
// before the answer came; whether the request was carried out is then unknown, and repeating it is
// the caller's business (all requests of package wire may be repeated). Payloads are written from
// the caller's memory and read straight into the buffer they belong in: the caller's dst on the
// client, the Handler's Buffer on the server.
//
// When a Call returns, for whatever reason, it no longer uses the caller's memory: not the payload,
// not dst, not the answer. A call that is cancelled while its payload is being written, or its
// answer read, waits a tenth of a second for that to end; after that its connection is closed, and
// other calls on it end with ErrConnection.
//
// Both ends of a connection prove that they have the job's secret before the first frame. If both
// have an Identity, connections that leave the host begin with TLS 1.3's handshake, both ends show
// a certificate of the job's own authority, and frames travel in sealed records.
//
// A Network makes the connections: Auto uses shared memory within a host and TCP between hosts; TCP
// and Unix use only these. internal/testing/faultnet has pipes in memory with injected faults.
package transport

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Network makes connections and listens for them.
type Network interface {
	// Listen listens on addr, host:port; port 0 takes a free one, see the listener's Addr.
	Listen(addr string) (net.Listener, error)
	// Dial connects to addr.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// Config configures a Client or a Server. The zero value of a field takes the default beside it.
type Config struct {
	// Network is TCP by default.
	Network Network
	// Secret is the job's. Empty: connections are not authenticated.
	Secret []byte
	// Identity is this process's. Nil: connections between hosts are not encrypted.
	Identity *Identity
	// Peers are the roles that the other end's Identity may have. None: any role of the job.
	Peers []string
	// Connections is the number of connections of a Client: 4 by default, or 1 to a loopback
	// address on a machine with few cores.
	Connections int
	// DialTimeout is 5 s by default.
	DialTimeout time.Duration
	// MaxInFlight is the most requests in flight of a Client, and of each connection of a
	// Server: 4096 by default; more wait.
	MaxInFlight int
	// Logger is slog.Default() by default.
	Logger *slog.Logger

	// Recorder counts the bytes of frames sent and received, headers included; nil: they are
	// not counted.
	Recorder *telemetry.Recorder
}

// A Request is what a Handler gets. It is valid until the Response has been written.
type Request struct {
	Kind wire.Kind
	// Head is the encoded message of Kind.
	Head []byte
	// Payload is in the memory returned by Buffer or Borrow.
	Payload []byte
	Remote  net.Addr
	// Peer is the role of the other end's Identity; empty within a host and without TLS.
	Peer string
	// Value is for the Handler: what Buffer sets, Serve finds.
	Value any

	// loan is that of the payload, if it was lent.
	loan Loan
	// placed is the answer, if its payload was placed.
	placed lentMessage
}

// A Response answers a Request.
type Response struct {
	Message wire.Message
	// Payload is written one piece after the other, and not copied.
	Payload [][]byte
	// Placed says that the payload lies in the Out of the request's Loan; Payload is empty.
	Placed bool
	// Order decides which of several large answers that wait for one connection is sent first:
	// the one with the lowest.
	Order uint64
	// Release, if set, is called once the payload has been written or dropped.
	Release func()
}

// A Handler serves requests. Its methods are called from many goroutines.
type Handler interface {
	// Buffer returns the memory, of length n, that the payload of the request is read into. It
	// is called after the head was read and only if n > 0. An error refuses the request: its
	// payload is read past, and the error is answered as a Nack.
	Buffer(r *Request, n int) ([]byte, error)
	// Serve returns the answer; it may wait for it, at most until ctx ends (the connection or
	// the Server was closed). An error is answered as a Nack: with the code and text of a
	// *Refusal in its chain, else CodeInternal. If Buffer gave memory, or a PromptHandler set a
	// Value, and the connection ends before Serve, Drop is called in its place.
	Serve(ctx context.Context, r *Request) (Response, error)
	Drop(r *Request)
}

// A PromptHandler answers some requests without waiting for anything. Prompt is called before Serve
// for small requests (16 KB with their payload) and for each wire.PushMany, on the goroutine that
// reads the connection: it must return within microseconds, or within one for each push. With done
// false it may have done a part; the request then goes to Serve, with its Value. Its errors are as
// those of Serve.
type PromptHandler interface {
	Handler
	Prompt(r *Request) (resp Response, done bool, err error)
}

// Ordered is a request with an order: of several large requests that wait for one connection, the
// one with the lowest order is sent first. Other requests have order 0.
type Ordered interface{ Order() uint64 }

func orderOf(m wire.Message) uint64 {
	if o, ok := m.(Ordered); ok {
		return o.Order()
	}
	return 0
}

// A Caller sends requests to one peer. *Client is one.
type Caller interface {
	// Call sends one request (its payload the concatenation of the slices, not copied, not kept
	// after the return) and waits for the answer. The answer's head is decoded into answer; a
	// Nack becomes a *Refusal, another kind an error. The answer's payload is read into dst, of
	// which the filled part is returned; one that does not fit is an error.
	Call(ctx context.Context, request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error)
	Close() error
}

// A LoanHandler is a Handler that can use payloads where they lie.
type LoanHandler interface {
	Handler
	// Borrow is called in place of Buffer for a request with a loan. Without an error it
	// returns either memory, of the length of the loan's Payload, into which the payload is
	// copied, as after Buffer; or nil, if Serve is to use the loan.
	Borrow(r *Request, l *Loan) ([]byte, error)
}
