// Package identity makes and verifies the certificates with which the processes of one job
// authenticate each other over a network.
//
// A job has an Authority of its own, a key that lives in the launcher's memory and nowhere else.
// For each process that the launcher starts it issues an Identity: a key and a certificate that
// holds the process's role. Identities are sent to other hosts inside ssh and reach the process in
// its environment (Encode, Decode), as the job's secret does.
//
// Client and Server give TLS configurations in which both ends show a certificate. A certificate is
// accepted if the job's own authority issued it, it is valid now, and its role is allowed at that
// end of the connection. Names and addresses of hosts are not checked: they differ from network to
// network, and only processes of the job can get a certificate.
//
// Programs that the launcher did not start, such as an agent that dials in, have no identity at
// first. With a Shared both ends prove that they have the same secret.
//
//	a, err := identity.NewAuthority(job)
//	id, err := a.Issue(identity.Worker, "worker 3") // in the launcher
//	id, err := identity.Decode(text)                // in the process
//	tls.Client(nc, id.Client(identity.Server))      // to a server of this job, and no other process
package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
)

// The roles a process can have.
const (
	Scheduler = "scheduler"
	Server    = "server"
	Worker    = "worker"
	// Launcher is the launcher, and its control command.
	Launcher = "launcher"
	// Agent is an agent that has dialled in.
	Agent = "agent"
)

// An Identity is a process's certificate with its key, and that of the authority. It never changes
// and may be used by several goroutines. Printed, it shows its name alone.
type Identity struct {
	role, name, job string
	leaf, issuer    *x509.Certificate
	key             ed25519.PrivateKey
	roots           *x509.CertPool
}

// Role is what the certificate says the process does.
func (id *Identity) Role() string { return id.role }

// Name is what the process is called in messages, such as "worker 3". It has no meaning: ranks
// change.
func (id *Identity) Name() string { return id.name }

// Job is the job's ID.
func (id *Identity) Job() string { return id.job }

// String names the process and its job.
func (id *Identity) String() string {
	if id == nil {
		return "nobody"
	}
	return id.name + " of job " + id.job
}

// GoString is String: a key must not get into a log.
func (id *Identity) GoString() string { return id.String() }

// MarshalText is String: a key must not get into a log. Encode is what another process can use.
func (id *Identity) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

func (id *Identity) certificate() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{id.leaf.Raw}, PrivateKey: id.key, Leaf: id.leaf}
}
