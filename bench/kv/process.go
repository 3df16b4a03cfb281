package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/bench/internal/processes"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
)

// What a process of a job is given besides the job's own variables.
const (
	roleEnv = "PARAGON_BENCH_ROLE"

	// workEnv has the names of the work, with commas between.
	workEnv      = "PARAGON_BENCH_WORK"
	scaleEnv     = "PARAGON_BENCH_SCALE"
	transportEnv = "PARAGON_BENCH_TRANSPORT"
	profileEnv   = "PARAGON_BENCH_PROFILE"
	// planEnv has the works in words, for programs that do not know them.
	planEnv = "PARAGON_BENCH_PLAN"
)

// A way is how the processes of a job reach each other.
type way struct {
	// network is nil with hosts.
	network transport.Network
	// hosts gives each rank a host of its own, see hostNetwork.
	hosts        bool
	certificates bool
}

// ways are the transports, by name.
var ways = map[string]way{
	"tcp": {network: transport.TCP}, secure: {network: transport.TCP, certificates: true},
	"unix": {network: transport.Unix}, "auto": {network: transport.Auto},
	"hosts": {hosts: true}, "hosts-tls": {hosts: true, certificates: true},
}

// secure is TCP with certificates.
const secure = "tls"

// transportNames are the transports that are measured unless the command line says otherwise.
var transportNames = []string{"tcp", secure, "auto", "hosts"}

// wayOf is the transport of a name.
func wayOf(name string) (way, error) {
	w, ok := ways[name]
	if !ok {
		return w, fmt.Errorf("transport: got %q, want some of %s", name, strings.Join(slices.Sorted(maps.Keys(ways)), ", "))
	}
	return w, nil
}

// networkOf returns the Network of a process on the host with this address.
func (w way) networkOf(host string) transport.Network {
	if w.hosts {
		return hostNetwork(host)
	}
	return w.network
}

// A hostNetwork is the Network of a process on the host with this address, one of the machine's
// loopback addresses (127.0.0.0/8 on Linux): shared memory to listeners on the same address, TCP to
// all others.
type hostNetwork string

// Listen implements transport.Network.
func (n hostNetwork) Listen(addr string) (net.Listener, error) { return transport.Auto.Listen(addr) }

// Dial implements transport.Network.
func (n hostNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err == nil && host == string(n) {
		return transport.Auto.Dial(ctx, addr)
	}
	return transport.TCP.Dial(ctx, addr)
}

// hostAddress is the loopback address of the host of a rank. The scheduler is on another one.
func hostAddress(role string, rank int) string {
	if role == "scheduler" {
		rank = -1
	}
	return netip.AddrFrom4([4]byte{127, 0, byte((rank + 2) / 250), byte((rank+2)%250 + 1)}).String()
}

// process is one process of a job.
func process() error {
	stop := func() {}
	defer func() { stop() }()
	return processes.Main(slog.LevelWarn, func(cfg *cluster.Config) (err error) {
		w, err := wayOf(os.Getenv(transportEnv))
		if err != nil {
			return err
		}
		cfg.Network = w.networkOf(cfg.Host)
		folder := os.Getenv(profileEnv)
		if folder == "" {
			return nil
		}
		stop, err = profile(folder, fmt.Sprintf("%s%d.pprof", os.Getenv("DMLC_ROLE"), cfg.Rank))
		return err
	}, play)
}

// profile writes a CPU profile until stop is called.
func profile(folder, name string) (stop func(), err error) {
	none := func() {}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return none, err
	}
	f, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		return none, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return none, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// An event is a line of a worker's standard output.
type event struct {
	Work string
	// Begin says that the samples begin; without it they have ended.
	Begin bool
	// Skip comes in place of Begin and of the end: a peer does not play this work.
	Skip bool
	// Took has the nanoseconds of each sample.
	Took []int64
	// First has those until the first key was there.
	First []int64
	// Norms has those of each sample of measured rounds, of a work that compares them.
	Norms []int64
}

// play is a worker: it plays one work after the other and reports each.
func play(ctx context.Context, cfg cluster.Config) error {
	scale, err := strconv.ParseFloat(os.Getenv(scaleEnv), 64)
	if err != nil {
		return err
	}
	kv, err := joining.Join(ctx, cfg, "dist_sync", kvstore.WithLogger(cfg.Logger))
	if err != nil {
		return err
	}
	defer kv.Close()
	out := json.NewEncoder(os.Stdout)
	for name := range strings.SplitSeq(os.Getenv(workEnv), ",") {
		w, err := findWork(name)
		if err != nil {
			return err
		}
		if err := playOne(ctx, kv, w.scaled(scale), out); err != nil {
			return fmt.Errorf("work %s: %w", name, err)
		}
	}
	return kv.Close()
}

// playOne plays a work after three samples that warm up. All workers wait for each other before the
// first sample and after the last: the next work begins on idle processes.
func playOne(ctx context.Context, kv kvstore.Store, w work, out *json.Encoder) error {
	p, err := newPlayer(ctx, kv, w)
	if err != nil {
		return err
	}
	defer p.close()
	for range 3 {
		// Connections and memory are there afterwards.
		if _, _, err := p.sample(); err != nil {
			return err
		}
	}
	if err := kv.Barrier(ctx); err != nil {
		return err
	}
	if err := out.Encode(event{Work: w.name, Begin: true}); err != nil {
		return err
	}
	end := event{Work: w.name}
	plain := func() error {
		took, first, err := p.sample()
		end.Took, end.First = append(end.Took, int64(took)), append(end.First, int64(first))
		return err
	}
	for range w.samples {
		err := plain()
		if w.norms != nil {
			// Neither of the two is always the first.
			err = errors.Join(err, p.measured(&end), p.measured(&end), plain())
		}
		if err != nil {
			return err
		}
	}
	if err := out.Encode(end); err != nil {
		return err
	}
	return kv.Barrier(ctx)
}

// measured plays a sample whose gradients' norms are measured.
func (p *player) measured(e *event) error {
	p.by = p.norms.pusher(p.kv, true)
	defer func() { p.by = p.norms.pusher(p.kv, false) }()
	took, _, err := p.sample()
	e.Norms = append(e.Norms, int64(took))
	return err
}
