package job

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts"
)

// newIdentity makes the job's ID and its secret, both in hexadecimal.
func newIdentity() (id, secret string) {
	var b [40]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:8]), hex.EncodeToString(b[8:])
}

// environment is what a process finds in its environment: the user's variables first, so that ours win.
func (r *run) environment(n *Node) []string {
	env := slices.Clone(r.cfg.Env)
	switch n.Role {
	case roleServer:
		env = append(env, r.cfg.ServerEnv...)
	case roleWorker:
		env = append(env, r.cfg.WorkerEnv...)
	}
	rank := n.Rank
	if n.joining && n.Role == roleWorker {
		rank = -1 // its rank is the scheduler's to give
	}
	listen := "" // the interface decides
	if r.cfg.Interface == "" {
		listen = n.machine.Address()
		if n.machine.LauncherAddress() == "" || n.Role == roleScheduler {
			listen = r.address // here, others reach it where they reach the scheduler
		}
		listen = net.JoinHostPort(listen, "0")
	}
	env = append(env,
		"DMLC_ROLE="+n.Role,
		"DMLC_PS_ROOT_URI="+r.address,
		"DMLC_PS_ROOT_PORT="+r.port,
		"DMLC_NUM_WORKER="+strconv.Itoa(len(r.cfg.Workers)),
		"DMLC_NUM_SERVER="+strconv.Itoa(len(r.cfg.Servers)),
		"DMLC_NODE_HOST="+r.hostName(n.host),
		"DMLC_TASK_ID="+strconv.Itoa(n.number),
		"PARAGON_RANK="+strconv.Itoa(rank),
		"PARAGON_LISTEN="+listen,
		"PARAGON_JOB="+r.id,
		"PARAGON_PROCESS="+strconv.FormatUint(uint64(n.process), 10),
		"PARAGON_START_TIMEOUT="+r.cfg.StartTimeout.String(),
	)
	env = append(env, r.credentials...)
	if n.joining || n.early { // an early one may find the job complete
		env = append(env, "PARAGON_JOIN=1")
	}
	if state := r.cfg.Elastic.state(r.id); state != "" {
		env = append(env, "PARAGON_STATE="+state)
	}
	if n.Role == roleScheduler {
		env = append(append(env, "PARAGON_HOSTS="+r.expected()), r.cfg.Elastic.environment()...)
	}
	if r.cfg.Interface != "" {
		env = append(env, "DMLC_INTERFACE="+r.cfg.Interface)
	}
	return append(env, r.identity(n.Role, n.Name()))
}

// identity is the variable with the certificate and key of a process that is about to start, a new one each time. Without TLS it is
// empty: launch may run as a process of another job.
func (r *run) identity(role, name string) string {
	const variable = "PARAGON_IDENTITY="
	if r.authority == nil {
		return variable
	}
	id, err := r.authority.Issue(role, name)
	if err != nil { // the process will say what it lacks
		r.cfg.Logger.Error(fmt.Sprintf("launch: %v", err))
		return variable
	}
	return variable + id.Encode()
}

// maxExpected bounds what expected says: Linux has room for 128 KiB in one variable. Whom it leaves out the scheduler knows by rank only.
const maxExpected = 100 << 10

// expected tells the scheduler where everybody comes up, so that it can name whom it waits for: worker/0/d1,server/0/d1.
func (r *run) expected() string {
	var b strings.Builder
	for _, n := range r.nodes[1:] {
		if n.joining || n.early || n.Role == roleScheduler {
			continue
		}
		item := fmt.Sprintf(",%s/%d/%s", n.Role, n.number, r.hostName(n.host))
		if b.Len()+len(item) > maxExpected {
			break
		}
		b.WriteString(item)
	}
	return strings.TrimPrefix(b.String(), ",")
}

// hostName is what the job's nodes call a host. Where hosts come and go it is what the operator calls it, with user and port.
func (r *run) hostName(h hosts.Host) string {
	if r.cfg.Elastic.Enabled {
		return h.String()
	}
	return h.Name
}

// sharers is how many processes of n's role its machine runs, n among them: each gets its share of the cores. Workers and servers
// take the cores in turns, so one role's number does not matter to the other.
func (r *run) sharers(n *Node) int {
	count := 0
	for _, o := range r.nodes {
		if o.Role == n.Role && o.machine == n.machine && !o.ended && o != n {
			count++
		}
	}
	return count + 1
}

// An Addressed is a Machine, as far as its addresses go.
type Addressed interface {
	Address() string
	LauncherAddress() string
}

// SchedulerAddress chooses the address at which all machines reach a scheduler on one of them.
func SchedulerAddress[M Addressed](scheduler M, all []M) (string, error) {
	var others []M
	for _, m := range all {
		if m.LauncherAddress() != "" {
			others = append(others, m)
		}
	}
	if len(others) == 0 || scheduler.LauncherAddress() != "" {
		return scheduler.Address(), nil
	}
	// The launching machine: what the other hosts see of it, if that is an address of ours (behind a NAT or a jump host it
	// is somebody else's); else the address we would send to them from.
	own := ownAddresses()
	allLoopback := true
	for _, m := range others {
		if a := m.LauncherAddress(); own[a] && !isLoopback(a) {
			return a, nil
		}
		allLoopback = allLoopback && isLoopback(m.Address())
	}
	if allLoopback {
		return scheduler.Address(), nil
	}
	for _, m := range others {
		c, err := net.Dial("udp", net.JoinHostPort(m.Address(), "9")) // sends nothing
		if err != nil {
			continue
		}
		a := c.LocalAddr().(*net.UDPAddr).IP
		c.Close()
		if !a.IsLoopback() {
			return a.String(), nil
		}
	}
	return "", fmt.Errorf("launch: choose the scheduler's address: no address of this machine is seen by the hosts; give --host-ip or --interface")
}

// checkAddresses refuses hosts that the others cannot reach.
func (r *run) checkAddresses() error {
	var loop, far string
	for _, n := range r.nodes {
		if n.machine.LauncherAddress() == "" {
			continue
		}
		if isLoopback(n.machine.Address()) {
			loop = n.Host
		} else {
			far = n.Host
		}
	}
	if loop != "" && far != "" {
		return fmt.Errorf("launch: host %s has a loopback address, where %s cannot reach it; write its name or address on the network into the hosts file", loop, far)
	}
	return nil
}

func ownAddresses() map[string]bool {
	own := make(map[string]bool)
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			own[n.IP.String()] = true
		}
	}
	return own
}

func isLoopback(addr string) bool {
	ip := net.ParseIP(addr)
	return ip != nil && ip.IsLoopback()
}

// InterfaceAddress is the address of a network interface, IPv4 before IPv6.
func InterfaceAddress(name string) (string, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return "", fmt.Errorf("launch: interface %s: %w; see the names with: ip addr", name, err)
	}
	addrs, err := i.Addrs()
	if err != nil {
		return "", fmt.Errorf("launch: interface %s: %w", name, err)
	}
	var v6 string
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || n.IP.IsLinkLocalUnicast():
		case n.IP.To4() != nil:
			return n.IP.String(), nil
		case v6 == "":
			v6 = n.IP.String()
		}
	}
	if v6 == "" {
		return "", fmt.Errorf("launch: interface %s has no address; choose another one or give --host-ip", name)
	}
	return v6, nil
}
