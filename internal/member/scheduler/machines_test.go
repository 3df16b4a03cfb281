package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// settingsOf are the settings of a job whose members may change.
func settingsOf(workers, servers int) *Settings {
	set := Settings{Job: "j", Workers: workers, Servers: servers, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute,
		Elastic: cluster.Elastic{Enabled: true, JoinTimeout: 20 * time.Second, RejoinTimeout: 40 * time.Second}}
	set = set.withDefaults()
	return &set
}

// running is an output in a running job of generation 1, and its roster: the workers are nodes 1,
// 2, ..., each on a host of its own, then come the servers. A test of one machine needs no more.
func running(workers, servers int) (*output, *roster) {
	now := time.Unix(1000, 0)
	job := newJobState(settingsOf(workers, servers), now)
	job.formed()
	r := &roster{}
	add := func(role uint8, count int, host string) {
		for rank := range count {
			n := r.add(&wire.Register{Role: role, Rank: int32(rank), Host: fmt.Sprint(host, rank), Nonce: r.last() + 1, Process: uint32(r.last() + 1)})
			n.lease = lease{heard: now, deadline: now.Add(10 * time.Second)}
		}
	}
	add(wire.RoleWorker, workers, "w")
	add(wire.RoleServer, servers, "s")
	r.changed = nil
	return &output{now: now, job: &job, events: &eventLog{}}, r
}

// take returns what was said since it was called last, as the scripts print it, and the records'
// keys.
func (o *output) take() (said, keys string) {
	var b strings.Builder
	for _, n := range o.Notes {
		fmt.Fprintln(&b, n)
	}
	for _, n := range o.Warnings {
		fmt.Fprintln(&b, "warning:", n)
	}
	for _, a := range o.Answers {
		fmt.Fprintf(&b, "#%d %s\n", a.Request, show(a.Message))
	}
	var list []string
	for _, r := range o.Records {
		list = append(list, r.Key)
	}
	o.Output = Output{}
	return b.String(), strings.Join(list, " ")
}
