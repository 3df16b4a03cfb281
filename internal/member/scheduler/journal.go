package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// The records of a Core. A key begins with the name of the machine that it belongs to, which alone
// writes and reads it (that of adaptations is "wish"):
//
//	job                      keptJob, with the format's number
//	server                   keptServers: ranks of servers, and servers that were asked for
//	placement                keptPlacement
//	placement/key/NUMBER     keptKey: declarations in their order
//	placement/places/NUMBER  keptPlaces: where the shards of a key are, if they have backups
//	node/ID                  keptNode
//	change                   keptChange: the pending change, loss reports and the division
//	host/NAME                keptHost
//	site                     the keptSites of all hosts on which processes may run
//	fleet                    keptWanted
//	fleet/PROCESS            wantedProcess
//	scale                    scaling
//	wish                     keptWish, of adaptations: what rank 0 wished for last, not the machine wish
//	event/NUMBER             control.Event
//	barrier/N, signal/N      keptName: a name that happened
//
// Times are not in the journal: leases and deadlines begin again. Nor are heartbeats, watches and
// other waits: the nodes ask again.

var errUnknownRecord = errors.New("unknown kind of record")

// A restorer takes the records of one machine.
type restorer struct {
	machine string
	// restore takes a record: the rest of its key, behind the machine's name and a slash, and
	// its value. Records come in the order of their keys.
	restore func(rest string, value []byte) error
}

// restorers lists the machines that have records, those first that others need.
func (c *Core) restorers() []restorer {
	m, now := &c.members, c.out.now
	return []restorer{
		{"job", m.job.restore},
		{"server", func(_ string, value []byte) error { return m.servers.restore(value, now) }},
		{"placement", func(rest string, value []byte) error { return m.places.restore(rest, value, m.servers.ranks) }},
		{"node", func(_ string, value []byte) error { return m.restoreNode(value, now) }},
		{"change", func(_ string, value []byte) error { return m.change.restore(value, now) }},
		{"host", m.hosts.restore},
		{"site", m.sites.restore},
		{"fleet", m.fleet.restore},
		{"scale", m.scale.restore},
		{"wish", c.adapts.restore},
		{"event", c.events.restore},
		{"barrier", m.barriers.opened.restore},
		{"signal", m.signals.sent.restore},
	}
}

// Restore returns the Core of the job with these records, the newest of each key. Without any it is
// a new job. All leases begin now.
func Restore(set Settings, now time.Time, records []Record) (*Core, error) {
	c := NewCore(set, now)
	if len(records) == 0 {
		return c, nil
	}
	of := make(map[string][]Record)
	for _, r := range records {
		machine, _, _ := strings.Cut(r.Key, "/")
		of[machine] = append(of[machine], r)
	}
	if len(of["job"]) == 0 {
		return nil, fmt.Errorf("scheduler: restore: %d records, and none is of the job", len(records))
	}
	for _, m := range c.restorers() {
		slices.SortFunc(of[m.machine], func(a, b Record) int { return strings.Compare(a.Key, b.Key) })
		for _, r := range of[m.machine] {
			_, rest, _ := strings.Cut(r.Key, "/")
			if err := m.restore(rest, r.Value); err != nil {
				return nil, restoreError(r, err)
			}
		}
		delete(of, m.machine)
	}
	for _, machine := range slices.Sorted(maps.Keys(of)) {
		return nil, restoreError(of[machine][0], errUnknownRecord)
	}
	if err := c.restored(); err != nil {
		return nil, fmt.Errorf("scheduler: restore: %w", err)
	}
	return c, nil
}

func restoreError(r Record, err error) error {
	return fmt.Errorf("scheduler: restore: record %s: %w", wire.Shown(r.Key), err)
}

// restored finds records that do not belong together, and sets what follows from several machines'.
func (c *Core) restored() error {
	m, now := &c.members, c.out.now
	if err := m.change.restored(&m.roster, now); err != nil {
		return err
	}
	if m.job.phase != wire.PhaseForming {
		m.places.restored(&m.roster, m.servers.ranks)
	}
	if m.job.running() {
		c.meters.begin(&m.roster)
	}
	m.hosts.restored(now, m.roster.hasWorkers)
	c.slow.restored(now, c.events.list, &m.roster)
	m.reconciled = m.fleet.revision
	// What was restored is in the journal.
	c.out.unkept = true
	for _, k := range c.keepers {
		k.keep(&c.out)
	}
	c.out.unkept = c.set.Unkept
	return nil
}

// restoreNode takes the record of a node. Its lease begins now.
func (m *membership) restoreNode(value []byte, now time.Time) error {
	n, err := m.roster.restore(value, now.Add(m.set.Elastic.JoinTimeout))
	if err == nil {
		m.leases.begin(n, now)
	}
	return err
}
