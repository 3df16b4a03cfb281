package cluster

import (
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/transport"
)

// jobVariables are all set in a job; if none is set there is no job.
var jobVariables = []string{"DMLC_ROLE", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER"}

// FromEnv reads a job from the environment. ErrNoJob is in the error's chain if no job variable is
// set.
//
//	DMLC_ROLE              worker, server or scheduler
//	DMLC_PS_ROOT_URI       host of the scheduler
//	DMLC_PS_ROOT_PORT      its port
//	DMLC_NUM_WORKER        number of workers
//	DMLC_NUM_SERVER        number of servers
//	DMLC_NODE_HOST         this host, as in the hosts file; if it is an IP address, servers listen on it
//	DMLC_INTERFACE         network interface on whose address servers listen
//	PARAGON_LISTEN         address servers listen on, host:port; overrides the two above
//	PARAGON_RANK           wanted rank; none or -1: any
//	PARAGON_JOB            ID of the job
//	PARAGON_RUN            ID of the run, which stays the same when launch starts a job again
//	PARAGON_RUN_AGAIN      1: launch has started the job again, and nobody asked for more than that
//	PARAGON_PROCESS        number of this process that launch gave it, never used again in the job; none or 0: started by hand
//	PARAGON_SECRET         secret of the job, in hexadecimal digits
//	PARAGON_IDENTITY       this process's certificate and key, as launch writes them; none: no TLS between hosts
//	PARAGON_HEARTBEAT      such as 1s: time between heartbeats
//	PARAGON_LEASE          such as 10s: silence after which a node is lost
//	PARAGON_START_TIMEOUT  such as 5m: how long the start may take
//	PARAGON_TRANSPORT      auto (the default), unix or tcp: how nodes of one host reach each other; see transport.Auto
//	PARAGON_HOSTS          where nodes are expected: worker/0/d1,worker/1/d2,server/0/d1
//	PARAGON_JOIN           1: the job may be running already; see Config.Joining
//	PARAGON_PROCESS_METRICS  host:port of this process's own endpoint for Prometheus (port 0: a free one); none: it has none
//	PARAGON_LOG            debug, info (the default), warn or error: see joblog.Level
//	PARAGON_LOG_FORMAT     text (the default) or json: see package joblog
//	PARAGON_ADAPT_WORKERS  1: the number of workers follows what rank 0 asks for, from PARAGON_MIN_WORKERS to PARAGON_MAX_WORKERS
//	PARAGON_STATE          where the scheduler keeps its journal: a file, or etcd://host:port/prefix
//
// The scheduler reads, and workers where PARAGON_ADAPT_WORKERS is 1:
//
//	PARAGON_MIN_WORKERS     with fewer the job fails
//	PARAGON_MAX_WORKERS     more may not join
//
// Only the scheduler reads:
//
//	PARAGON_ELASTIC         1: workers may join and leave
//	PARAGON_ON_WORKER_LOSS  shrink, wait or fail
//	PARAGON_JOIN_TIMEOUT    such as 5m: how long a joining worker may take until it is ready
//	PARAGON_REJOIN_TIMEOUT  such as 5m: how long "wait" waits
//	PARAGON_REJOIN          how often a worker that was lost is started again where it was
//	PARAGON_BACKUPS         0 or 1: backups of every shard
//
// An error names the variable, its value and the rule.
func FromEnv(getenv func(string) string) (Config, error) {
	missing := make([]string, 0, len(jobVariables))
	for _, name := range jobVariables {
		if getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	switch len(missing) {
	case 0:
	case len(jobVariables):
		return Config{}, fmt.Errorf("cluster: %w: none of %s is set", ErrNoJob, strings.Join(jobVariables, ", "))
	default:
		return Config{}, fmt.Errorf("cluster: %s not set: a job needs all of %s", strings.Join(missing, ", "), strings.Join(jobVariables, ", "))
	}
	e := env{getenv: getenv}
	cfg := Config{
		Scheduler:         net.JoinHostPort(getenv("DMLC_PS_ROOT_URI"), strconv.Itoa(e.number("DMLC_PS_ROOT_PORT", 0, 0, 65535))),
		NumWorkers:        e.number("DMLC_NUM_WORKER", 0, 1, MaxNodes),
		NumServers:        e.number("DMLC_NUM_SERVER", 0, 1, MaxNodes),
		Rank:              e.number("PARAGON_RANK", -1, -1, MaxNodes-1),
		Host:              getenv("DMLC_NODE_HOST"),
		Job:               getenv("PARAGON_JOB"),
		Run:               getenv("PARAGON_RUN"),
		RunAgain:          e.flag("PARAGON_RUN_AGAIN"),
		Process:           uint32(e.number("PARAGON_PROCESS", 0, 0, math.MaxInt32)),
		HeartbeatInterval: e.duration("PARAGON_HEARTBEAT"),
		Lease:             e.duration("PARAGON_LEASE"),
		StartTimeout:      e.duration("PARAGON_START_TIMEOUT"),
		Joining:           e.flag("PARAGON_JOIN"),
		State:             getenv("PARAGON_STATE"),
		Measuring:         Measuring{Metrics: getenv("PARAGON_PROCESS_METRICS")},
	}
	cfg.Elastic, cfg.Role = e.elastic(), e.role()
	t := e.transport()
	cfg.Network, cfg.Secret, cfg.Identity = t.Network, t.Secret, t.Identity
	cfg.Listen = e.listen()
	cfg.ExpectedHosts = e.hosts("PARAGON_HOSTS")
	if e.err == nil {
		e.err = cfg.Validate()
	}
	return cfg, e.err
}

// TransportFromEnv reads the transport.Config for Control, for a process that is not a node of the
// job: PARAGON_SECRET, PARAGON_IDENTITY and PARAGON_TRANSPORT, as FromEnv does.
func TransportFromEnv(getenv func(string) string) (transport.Config, error) {
	e := env{getenv: getenv}
	t := e.transport()
	t.Peers = []string{identity.Scheduler}
	if t.Network == nil {
		t.Network = transport.Auto
	}
	return t, e.err
}

// transport reads the secrets. Errors do not contain their values, because errors end up in logs.
func (e *env) transport() transport.Config {
	t := transport.Config{Network: e.network()}
	var err error
	if t.Secret, err = hex.DecodeString(e.getenv("PARAGON_SECRET")); err != nil && e.err == nil {
		e.err = fmt.Errorf("cluster: PARAGON_SECRET: want hexadecimal digits, two for each byte")
	}
	if v := e.getenv("PARAGON_IDENTITY"); v != "" {
		if t.Identity, err = identity.Decode(v); err != nil && e.err == nil {
			e.err = fmt.Errorf("cluster: PARAGON_IDENTITY: %w", err)
		}
	}
	return t
}

// env reads variables and keeps the first error.
type env struct {
	getenv func(string) string
	err    error
}

// elastic reads how the job's membership may change.
func (e *env) elastic() Elastic {
	return Elastic{
		Enabled:       e.flag("PARAGON_ELASTIC"),
		AdaptWorkers:  e.flag("PARAGON_ADAPT_WORKERS"),
		OnWorkerLoss:  LossPolicy(e.getenv("PARAGON_ON_WORKER_LOSS")),
		MinWorkers:    e.number("PARAGON_MIN_WORKERS", 0, 1, MaxNodes),
		MaxWorkers:    e.number("PARAGON_MAX_WORKERS", 0, 1, MaxNodes),
		JoinTimeout:   e.duration("PARAGON_JOIN_TIMEOUT"),
		RejoinTimeout: e.duration("PARAGON_REJOIN_TIMEOUT"),
		Rejoin:        e.number("PARAGON_REJOIN", 0, 0, math.MaxInt32),
		Backups:       e.number("PARAGON_BACKUPS", 0, 0, 1),
	}
}

// role reads the process's role.
func (e *env) role() Role {
	switch e.getenv("DMLC_ROLE") {
	case "worker":
		return Worker
	case "server":
		return Server
	case "scheduler":
		return Scheduler
	}
	e.fail("DMLC_ROLE", "want worker, server or scheduler")
	return 0
}

// fail keeps an error on a variable, if it is the first.
func (e *env) fail(name, format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("cluster: %s=%q: %s", name, e.getenv(name), fmt.Sprintf(format, args...))
	}
}

// number reads a number; unset is its value where the variable is not set.
func (e *env) number(name string, unset, least, most int) int {
	v := e.getenv(name)
	if v == "" {
		return unset
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		e.fail(name, "want a number from %d to %d", least, most)
	}
	return n
}

// duration reads a time; zero: the variable is not set.
func (e *env) duration(name string) time.Duration {
	v := e.getenv(name)
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		e.fail(name, "want a time above zero with its unit, such as 10s or 500ms")
	}
	return d
}

// flag reads 1 or 0; not set is 0.
func (e *env) flag(name string) bool {
	switch e.getenv(name) {
	case "", "0":
		return false
	case "1":
		return true
	}
	e.fail(name, "want 1 or 0")
	return false
}

// network reads how nodes of one host reach each other; nil: by default.
func (e *env) network() transport.Network {
	switch e.getenv("PARAGON_TRANSPORT") {
	case "":
		// It is the default.
	case "auto":
		return transport.Auto
	case "unix":
		return transport.Unix
	case "tcp":
		return transport.TCP
	default:
		e.fail("PARAGON_TRANSPORT", "want auto, unix or tcp")
	}
	return nil
}

// listen is the address to listen on: as it is given, or that of an interface, or that of this host
// if its name is one; else empty.
func (e *env) listen() string {
	if v := e.getenv("PARAGON_LISTEN"); v != "" {
		if _, _, err := net.SplitHostPort(v); err != nil {
			e.fail("PARAGON_LISTEN", "want host:port; port 0 takes a free one")
		}
		return v
	}
	if name := e.getenv("DMLC_INTERFACE"); name != "" {
		ip, err := interfaceAddr(name)
		if err != nil {
			e.fail("DMLC_INTERFACE", "%v", err)
		}
		return net.JoinHostPort(ip, "0")
	}
	if ip, err := netip.ParseAddr(e.getenv("DMLC_NODE_HOST")); err == nil {
		return net.JoinHostPort(ip.String(), "0")
	}
	return ""
}

// interfaceAddr returns the first address of an interface, IPv4 before IPv6.
func interfaceAddr(name string) (string, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		all, _ := net.Interfaces()
		names := make([]string, len(all))
		for k := range all {
			names[k] = all[k].Name
		}
		return "", fmt.Errorf("want a network interface of this host: %s", strings.Join(names, ", "))
	}
	addrs, err := i.Addrs()
	if err != nil {
		return "", err
	}
	best := ""
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		if p.Addr().Is4() {
			return p.Addr().String(), nil
		}
		if best == "" {
			best = p.Addr().String()
		}
	}
	if best == "" {
		return "", fmt.Errorf("the interface has no address")
	}
	return best, nil
}

// hosts reads where nodes are expected.
func (e *env) hosts(name string) map[Place]string {
	v := e.getenv(name)
	if v == "" {
		return nil
	}
	hosts := make(map[Place]string)
	for item := range strings.SplitSeq(v, ",") {
		f := strings.Split(strings.TrimSpace(item), "/")
		role := map[string]Role{"worker": Worker, "server": Server}[f[0]]
		if role == 0 || len(f) != 3 || f[2] == "" {
			e.fail(name, "%q is not ROLE/RANK/HOST, such as worker/0/d1", item)
			return nil
		}
		rank, err := strconv.Atoi(f[1])
		if err != nil || rank < 0 || rank >= MaxNodes {
			e.fail(name, "%q: want a rank from 0 to %d", item, MaxNodes-1)
			return nil
		}
		hosts[Place{role, Rank(rank)}] = f[2]
	}
	return hosts
}
