package job

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/store/identity"
)

// newIdentity makes the job's ID and its secret, both in hexadecimal.
func newIdentity() (id, secret string) {
	var b [40]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:8]), hex.EncodeToString(b[8:])
}

// environment is what a process finds in its environment: the user's variables first, so that ours
// win.
func (s *shell) environment(a startProcess, m Machine) []string {
	env := slices.Clone(s.cfg.Env)
	switch a.role {
	case roleServer:
		env = append(env, s.cfg.ServerEnv...)
	case roleWorker:
		env = append(env, s.cfg.WorkerEnv...)
		env = append(env, s.cfg.Elastic.wishRange(s.cfg.Hosts)...)
		env = append(env, "PARAGON_RUN="+s.cfg.run, "PARAGON_RUN_AGAIN="+s.runAgain())
		if s.cfg.Elastic.Enabled {
			env = append(env, "PARAGON_ELASTIC=1")
		}
	}
	// With an interface that decides. Whoever runs on the launching machine is reached where the
	// scheduler is.
	listen := ""
	if s.cfg.Interface == "" {
		listen = m.Address()
		if m.LauncherAddress() == "" || a.role == roleScheduler {
			listen = a.address
		}
		listen = net.JoinHostPort(listen, "0")
	}
	env = append(env,
		"DMLC_ROLE="+a.role,
		"DMLC_PS_ROOT_URI="+a.address,
		"DMLC_PS_ROOT_PORT="+a.port,
		"DMLC_NUM_WORKER="+strconv.Itoa(len(s.cfg.Workers)),
		"DMLC_NUM_SERVER="+strconv.Itoa(len(s.cfg.Servers)),
		"DMLC_NODE_HOST="+a.hostName,
		"DMLC_TASK_ID="+strconv.Itoa(a.number),
		"PARAGON_RANK="+strconv.Itoa(a.rank),
		"PARAGON_LISTEN="+listen,
		"PARAGON_JOB="+s.id,
		"PARAGON_PROCESS="+strconv.FormatUint(uint64(a.process), 10),
		"PARAGON_START_TIMEOUT="+s.cfg.StartTimeout.String(),
	)
	env = append(env, s.credentials...)
	if a.joins {
		env = append(env, "PARAGON_JOIN=1")
	}
	if state := s.cfg.Elastic.state(s.id); state != "" {
		env = append(env, "PARAGON_STATE="+state)
	}
	if a.role == roleScheduler {
		env = append(append(env, "PARAGON_HOSTS="+a.hosts, "PARAGON_METRICS_LISTEN="+a.metrics), s.cfg.Elastic.environment()...)
		if a.metrics != "" {
			env = append(env, "PARAGON_RESTARTS="+strconv.Itoa(s.cfg.restarts))
		}
	}
	if s.cfg.Interface != "" {
		env = append(env, "DMLC_INTERFACE="+s.cfg.Interface)
	}
	return append(env, s.identity(a.role, a.name))
}

// runAgain is 1 where the workers are to go on from the checkpoints of their own run alone. Who
// asked for more from the beginning gets it again.
func (s *shell) runAgain() string {
	if s.cfg.restarts > 0 && !s.cfg.ResumeAsked {
		return "1"
	}
	return ""
}

// identity is the variable with the certificate and key of a process that is about to start, a new
// one each time. Without TLS it is empty: launch may run as a process of another job.
func (s *shell) identity(role, name string) string {
	const variable = "PARAGON_IDENTITY="
	if s.authority == nil {
		return variable
	}
	id, err := s.authority.Issue(role, name)
	// Without an identity the process says what it lacks.
	if err != nil {
		s.cfg.Logger.Error(fmt.Sprintf("launch: %v", err))
		return variable
	}
	return variable + id.Encode()
}

// controlVariables are those by which the launcher asks the scheduler.
func (s *shell) controlVariables() []string {
	variables := append(slices.Clone(s.credentials), s.identity(identity.Launcher, identity.Launcher))
	for _, v := range s.cfg.Env {
		if strings.HasPrefix(v, "PARAGON_TRANSPORT=") {
			variables = append(variables, v)
		}
	}
	return variables
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
	// The launching machine: what the other hosts see of it, if that is an address of ours
	// (behind a NAT or a jump host it is somebody else's); else the address we would send to
	// them from.
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
		// This sends nothing.
		c, err := net.Dial("udp", net.JoinHostPort(m.Address(), "9"))
		if err != nil {
			continue
		}
		a := c.LocalAddr().(*net.UDPAddr).IP
		c.Close()
		if !a.IsLoopback() {
			return a.String(), nil
		}
	}
	return "", fmt.Errorf("launch: choose the scheduler's address: no address of this machine is known to be reachable from the hosts; give --host-ip or --interface")
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
