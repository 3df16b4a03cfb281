package scheduler

import (
	"fmt"
	"strings"
	"testing"
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

// says holds that exactly this was said since take was called last, and that these are the keys of
// the records.
func (o *output) says(t *testing.T, what, want, wantKeys string) {
	t.Helper()
	said, keys := o.take()
	if said != want {
		t.Errorf("%s:\n---- got\n%s---- want\n%s", what, said, want)
	}
	if keys != wantKeys {
		t.Errorf("%s: got the records %q, want %q", what, keys, wantKeys)
	}
}

// restored hands the records that keep makes to another machine.
func restored(t *testing.T, from keeper, restore func(rest string, value []byte) error) {
	t.Helper()
	var out output
	from.keep(&out)
	for _, r := range out.Records {
		_, rest, _ := strings.Cut(r.Key, "/")
		if err := restore(rest, r.Value); err != nil {
			t.Fatalf("record %s: %v", r.Key, err)
		}
	}
	if len(out.Records) == 0 {
		t.Fatal("nothing is kept")
	}
}
