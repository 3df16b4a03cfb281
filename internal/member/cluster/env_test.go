package cluster

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/internal/store/transport"
)

// vars is an environment.
type vars map[string]string

func (v vars) get(name string) string { return v[name] }

// with returns the environment of a good job with some variables set otherwise.
func with(pairs ...string) vars {
	v := vars{"DMLC_ROLE": "worker", "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "9091", "DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "3"}
	for i := 0; i < len(pairs); i += 2 {
		v[pairs[i]] = pairs[i+1]
	}
	return v
}

func TestFromEnvReadsAJob(t *testing.T) {
	got, err := FromEnv(with("PARAGON_RANK", "1", "PARAGON_JOB", "j7", "PARAGON_PROCESS", "12", "PARAGON_SECRET", "00ff10", "PARAGON_HEARTBEAT", "500ms",
		"PARAGON_LEASE", "4s", "PARAGON_START_TIMEOUT", "1m30s", "DMLC_NODE_HOST", "d2",
		"PARAGON_HOSTS", "worker/0/d1, worker/1/d2,server/2/10.0.0.7").get)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Role: Worker, Scheduler: "127.0.0.1:9091", NumWorkers: 2, NumServers: 3, Rank: 1, Host: "d2", Job: "j7", Process: 12,
		Secret: []byte{0, 0xff, 0x10}, HeartbeatInterval: 500 * time.Millisecond, Lease: 4 * time.Second, StartTimeout: 90 * time.Second,
		ExpectedHosts: map[Place]string{{Worker, 0}: "d1", {Worker, 1}: "d2", {Server, 2}: "10.0.0.7"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	got, err = FromEnv(with("DMLC_ROLE", "server", "DMLC_PS_ROOT_URI", "::1").get)
	if err != nil || got.Role != Server || got.Rank != -1 || got.Scheduler != "[::1]:9091" {
		t.Errorf("server: %+v, %v", got, err)
	}
	for name, want := range map[string]transport.Network{"": nil, "auto": transport.Auto, "unix": transport.Unix, "tcp": transport.TCP} {
		if got, err := FromEnv(with("PARAGON_TRANSPORT", name).get); err != nil || got.Network != want {
			t.Errorf("PARAGON_TRANSPORT=%q: got network %v and error %v, want %v", name, got.Network, err, want)
		}
	}
}

func TestFromEnvSaysWhichVariableIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, value, want string
	}{
		{"DMLC_ROLE", "master", `cluster: DMLC_ROLE="master": want worker, server or scheduler`},
		{"DMLC_PS_ROOT_PORT", "http", `cluster: DMLC_PS_ROOT_PORT="http": want a number from 0 to 65535`},
		{"DMLC_PS_ROOT_PORT", "70000", `cluster: DMLC_PS_ROOT_PORT="70000": want a number from 0 to 65535`},
		{"DMLC_NUM_WORKER", "0", `cluster: DMLC_NUM_WORKER="0": want a number from 1 to 5000`},
		{"DMLC_NUM_SERVER", "-1", `cluster: DMLC_NUM_SERVER="-1": want a number from 1 to 5000`},
		{"DMLC_NUM_SERVER", "", `cluster: DMLC_NUM_SERVER not set: a job needs all of DMLC_ROLE, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER`},
		{"PARAGON_RANK", "2", `cluster: Rank 2: want 0 to 1, or -1 for any`},
		{"PARAGON_PROCESS", "-1", `cluster: PARAGON_PROCESS="-1": want a number from 0 to 2147483647`},
		{"PARAGON_RANK", "x", `cluster: PARAGON_RANK="x": want a number from -1 to 4999`},
		{"PARAGON_SECRET", "geheim", `cluster: PARAGON_SECRET: want hexadecimal digits, two for each byte`},
		{"PARAGON_HEARTBEAT", "5", `cluster: PARAGON_HEARTBEAT="5": want a time above zero with its unit, such as 10s or 500ms`},
		{"PARAGON_LEASE", "-1s", `cluster: PARAGON_LEASE="-1s": want a time above zero`},
		{"PARAGON_LEASE", "1s", `cluster: Lease 1s: want at least two heartbeats of 1s`},
		{"PARAGON_START_TIMEOUT", "soon", `cluster: PARAGON_START_TIMEOUT="soon": want a time`},
		{"PARAGON_LISTEN", "10.0.0.7", `cluster: PARAGON_LISTEN="10.0.0.7": want host:port; port 0 takes a free one`},
		{"DMLC_INTERFACE", "eth99", `cluster: DMLC_INTERFACE="eth99": want a network interface of this host: `},
		{"PARAGON_TRANSPORT", "udp", `cluster: PARAGON_TRANSPORT="udp": want auto, unix or tcp`},
		{"PARAGON_HOSTS", "worker/d1", `cluster: PARAGON_HOSTS="worker/d1": "worker/d1" is not ROLE/RANK/HOST, such as worker/0/d1`},
		{"PARAGON_HOSTS", "worker/0/d1,server/x/d1", `"server/x/d1": want a rank from 0 to 4999`},
		{"DMLC_PS_ROOT_URI", "10.1.2.3", `cluster: Secret is empty: want one unless the scheduler listens on loopback; it is at 10.1.2.3`},
	} {
		_, err := FromEnv(with(c.name, c.value).get)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%q:\n got %v\nwant %s", c.name, c.value, err, c.want)
		}
		if errors.Is(err, ErrNoJob) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s=%q: %v", c.name, c.value, err)
		}
	}
}

func TestFromEnvReadsHowTheMembershipMayChange(t *testing.T) {
	got, err := FromEnv(with("DMLC_ROLE", "scheduler", "PARAGON_ELASTIC", "1", "PARAGON_ON_WORKER_LOSS", "wait", "PARAGON_MIN_WORKERS", "2",
		"PARAGON_MAX_WORKERS", "7", "PARAGON_JOIN_TIMEOUT", "90s", "PARAGON_REJOIN_TIMEOUT", "2m", "PARAGON_BACKUPS", "1", "PARAGON_ADAPT_WORKERS", "1", "PARAGON_STATE", "/s").get)
	want := Elastic{Enabled: true, OnWorkerLoss: LossWait, MinWorkers: 2, MaxWorkers: 7, JoinTimeout: 90 * time.Second, RejoinTimeout: 2 * time.Minute, AdaptWorkers: true, Backups: 1}
	if err != nil || got.Elastic != want || got.State != "/s" || got.Joining {
		t.Errorf("got %+v, state %q, %v, want %+v", got.Elastic, got.State, err, want)
	}
	// A running job does not have this rank yet.
	got, err = FromEnv(with("PARAGON_JOIN", "1", "PARAGON_RANK", "6").get)
	if err != nil || !got.Joining {
		t.Errorf("got %+v, %v, want Joining", got, err)
	}
	for _, c := range []struct{ name, value, want string }{
		{"PARAGON_ELASTIC", "yes", `cluster: PARAGON_ELASTIC="yes": want 1 or 0`},
		{"PARAGON_JOIN", "2", `cluster: PARAGON_JOIN="2": want 1 or 0`},
		{"PARAGON_ON_WORKER_LOSS", "cry", `cluster: Elastic.OnWorkerLoss "cry": want shrink, wait or fail`},
		{"PARAGON_MIN_WORKERS", "3", `cluster: Elastic.MinWorkers 3: want 1 to the job's 2 workers`},
		{"PARAGON_MAX_WORKERS", "1", `cluster: Elastic.MaxWorkers 1: want 2 (the job's workers) to 5000, or 0 for any number`},
		{"PARAGON_ADAPT_WORKERS", "1", "cluster: Elastic.MaxWorkers 0: want at least 1 with AdaptWorkers"},
		{"PARAGON_BACKUPS", "2", `cluster: PARAGON_BACKUPS="2": want a number from 0 to 1`},
		{"PARAGON_JOIN_TIMEOUT", "0s", `cluster: PARAGON_JOIN_TIMEOUT="0s": want a time above zero`},
	} {
		if _, err := FromEnv(with("DMLC_ROLE", "scheduler", c.name, c.value).get); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%q:\n got %v\nwant %s", c.name, c.value, err, c.want)
		}
	}
	one := with("DMLC_ROLE", "scheduler", "DMLC_NUM_SERVER", "1", "PARAGON_BACKUPS", "1")
	if _, err := FromEnv(one.get); err == nil || !strings.Contains(err.Error(), "Elastic.Backups 1: want 0 with 1 server: a backup is on another server") {
		t.Errorf("a backup of one server: got %v", err)
	}
}

func TestNoVariablesAreNoJob(t *testing.T) {
	if _, err := FromEnv(vars{"PARAGON_RANK": "x"}.get); !errors.Is(err, ErrNoJob) {
		t.Errorf("got %v, want ErrNoJob", err)
	}
}

func TestServersListenWhereTheyAreTold(t *testing.T) {
	lo := ""
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			lo = i.Name
		}
	}
	for _, c := range []struct {
		name string
		v    vars
		host string
	}{
		{"the address that reaches the scheduler", with(), "127.0.0.1"},
		{"the node's address", with("DMLC_NODE_HOST", "127.0.0.2"), "127.0.0.2"},
		{"a name is no address to bind", with("DMLC_NODE_HOST", "d2"), "127.0.0.1"},
		{"an interface", with("DMLC_NODE_HOST", "127.0.0.2", "DMLC_INTERFACE", lo), "127.0.0.1"},
		{"told outright", with("DMLC_INTERFACE", lo, "PARAGON_LISTEN", "127.0.0.3:0"), "127.0.0.3"},
		{"everywhere", with("DMLC_NODE_HOST", "d2", "PARAGON_LISTEN", "0.0.0.0:0"), "d2"},
	} {
		c.v["DMLC_ROLE"] = "server"
		cfg, err := FromEnv(c.v.get)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		ln, addr, err := Listen(t.Context(), cfg)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		if want := net.JoinHostPort(c.host, port); addr != want {
			t.Errorf("%s: others are told %s, want %s", c.name, addr, want)
		}
		ln.Close()
	}
}

func TestJoinRefusesAConfigThatCannotBe(t *testing.T) {
	good := Config{Role: Worker, Scheduler: "127.0.0.1:1", NumWorkers: 1, NumServers: 1, Rank: -1, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"role", func(c *Config) { c.Role = 7 }, "cluster: Role 7: want Scheduler, Server or Worker"},
		{"scheduler", func(c *Config) { c.Role = Scheduler }, "cluster: join: a scheduler does not join its job, it runs it"},
		{"address", func(c *Config) { c.Scheduler = "d1" }, `cluster: Scheduler "d1": want host:port`},
		{"no addr", func(c *Config) { c.Role = Server }, "cluster: join: Addr is empty: a server listens first, see Listen"},
		{"server rank", func(c *Config) { c.Role, c.Rank = Server, 1 }, "cluster: Rank 1: want 0 to 0, or -1 for any"},
		{"time", func(c *Config) { c.Lease = -1 }, "want none below zero"},
	} {
		cfg := good
		c.edit(&cfg)
		if _, err := Join(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestDefaultsAreThoseOfTheFields(t *testing.T) {
	d := Config{Lease: 30 * time.Second}.WithDefaults()
	if d.HeartbeatInterval != time.Second || d.StartTimeout != 5*time.Minute || d.SchedulerTimeout != 30*time.Second ||
		d.Network != transport.Auto || d.Host == "" || d.Logger == nil {
		t.Errorf("got %+v", d)
	}
	if d.Elastic.JoinTimeout != 5*time.Minute || d.Elastic.RejoinTimeout != 5*time.Minute {
		t.Errorf("got a join timeout of %v and a rejoin timeout of %v, want 5m0s each", d.Elastic.JoinTimeout, d.Elastic.RejoinTimeout)
	}
	if d := (Config{}).WithDefaults(); d.Lease != 10*time.Second || d.SchedulerTimeout != 10*time.Second {
		t.Errorf("got a lease of %v and a scheduler timeout of %v, want 10s each", d.Lease, d.SchedulerTimeout)
	}
	if d := (Config{State: "/s"}).WithDefaults(); d.SchedulerTimeout != 10*time.Minute || d.Elastic.OnWorkerLoss != LossFail || d.Elastic.MinWorkers != 1 {
		t.Errorf("with a state: got %+v", d)
	}
	if d := (Config{Elastic: Elastic{Enabled: true}}).WithDefaults(); d.Elastic.OnWorkerLoss != LossShrink {
		t.Errorf("elastic: got %+v", d.Elastic)
	}
	if s := Worker.String() + Server.String() + Scheduler.String() + Role(9).String(); s != "workerserverschedulerrole 9" {
		t.Errorf("roles are called %s", s)
	}
}
