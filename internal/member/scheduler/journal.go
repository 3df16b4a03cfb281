package scheduler

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// The records of a Core. All but the first have many keys.
//
//	job                  keptJob
//	node/ID              keptNode
//	key/NUMBER           keptKey: declarations in their order
//	barrier/N, signal/N  keptName: a name that happened
//	host/NAME            keptHost
//	place/NUMBER         keptPlaces: where the shards of a key are, if they have backups
//	event/N              control.Event
//
// Times are not in the journal: leases and deadlines begin again. Nor are heartbeats, watches and
// other waits: the nodes ask again.

type keptJob struct {
	Job        string
	Phase      uint8
	Generation uint64
	Revision   uint64
	Reason     string           `json:",omitempty"`
	Failure    *control.Failure `json:",omitempty"`
	Loss       *control.Failure `json:",omitempty"`
	Workers    int
	Changes    uint64
	Placement  uint64           `json:",omitempty"`
	Unsteady   bool             `json:",omitempty"`
	Ranks      int              `json:",omitempty"`
	Coming     []keptServer     `json:",omitempty"`
	Pending    bool             `json:",omitempty"`
	Causes     []string         `json:",omitempty"`
	Want       int              `json:",omitempty"`
	Asked      bool             `json:",omitempty"`
	Stopping   bool             `json:",omitempty"`
	StopsFor   string           `json:",omitempty"`
	Stopped    *control.Stopped `json:",omitempty"`
	Scale      keptScale        `json:",omitzero"`
	ScaleAsked keptScale        `json:",omitzero"` // a scale that the launcher has not answered
	Wished     int              `json:",omitempty"`
	Settle     []keptSettlement
	Division   wire.Division
	Shares     []uint64
	Before     []uint64 `json:",omitempty"` // what the workers of Shares had used before the division
}

type keptName struct {
	Name  string
	Value string `json:",omitempty"`
}

type keptSettlement struct {
	Lost uint64
	Told map[uint64]uint64
}

type keptNode struct {
	wire.Member
	Wanted  int32
	Process uint32 `json:",omitempty"`
	Nonce   uint64
	Life    state
	Why     string `json:",omitempty"`
	Joins   bool   `json:",omitempty"` // its time to join runs
}

type keptKey struct {
	Declare wire.Declare
	By      string
	Servers int    `json:",omitempty"` // ranks of servers when it was placed
	Hash    uint64 `json:",omitempty"` // of its plan, for shards may have moved
}

type keptHost struct {
	Status string
	Reason string
}

// dirty lists the records that an event has changed.
type dirty struct {
	job    bool
	nodes  []*node
	places []*placed
}

// keep marks a node's record as changed.
func (c *Core) keep(n *node) {
	if !slices.Contains(c.dirty.nodes, n) {
		c.dirty.nodes = append(c.dirty.nodes, n)
	}
}

// put adds a record.
func (c *Core) put(key string, value any) {
	if c.set.Unkept {
		return
	}
	b, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("scheduler: record %s: %v", key, err)) // plain structs always marshal
	}
	c.out.Records = append(c.out.Records, Record{key, b})
}

// record adds the records of what has changed since the last event.
func (c *Core) record() {
	for _, n := range c.dirty.nodes {
		c.account(n)
		c.put(nodeKey(n.Node), keptNode{n.Member, n.wanted, n.process, n.nonce, n.state, n.why, !n.joinBy.IsZero()})
	}
	for _, k := range c.dirty.places {
		k.dirty = false
		if !c.set.Unkept {
			c.put(fmt.Sprintf("place/%08d", k.plan.Key), k.kept())
		}
	}
	if c.dirty.job || len(c.dirty.nodes) > 0 {
		c.put("job", c.keptJob())
	}
	c.dirty = dirty{}
}

func (c *Core) keptJob() keptJob {
	k := keptJob{Job: c.set.Job, Phase: c.phase, Generation: c.generation, Revision: c.revision, Reason: c.reason, Failure: c.failure, Loss: c.change.loss, Workers: c.workers,
		Changes: c.changes, Placement: c.placement, Unsteady: c.unsteady, Ranks: c.ranks, Pending: c.change.number > 0, Causes: c.change.causes, Want: c.change.want, Asked: c.change.asked, Stopping: c.stopping, StopsFor: c.stopsFor, Stopped: c.stopped, Scale: c.scale.keptScale, ScaleAsked: c.asked.keptScale, Wished: c.wished, Division: c.division, Shares: c.shares, Before: c.before}
	for _, x := range c.newServers {
		k.Coming = append(k.Coming, x.keptServer)
	}
	for _, lost := range c.lostToReport() {
		k.Settle = append(k.Settle, keptSettlement{lost, c.lossReports[lost].told})
	}
	return k
}

// Restore returns the Core of the job with these records, the newest of each key. Without any it is
// a new job. All leases begin now.
func Restore(set Settings, now time.Time, records []Record) (*Core, error) {
	c := NewCore(set, now)
	if len(records) == 0 {
		return c, nil
	}
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b Record) int { return strings.Compare(a.Key, b.Key) })
	found := false
	for _, r := range records {
		kind, rest, _ := strings.Cut(r.Key, "/")
		var err error
		switch kind {
		case "job":
			found = true
			err = c.restoreJob(r.Value)
		case "node":
			err = c.restoreNode(r.Value)
		case "key":
			err = c.restoreKey(r.Value)
		case "barrier":
			err = c.barriers.restore(rest, r.Value)
		case "signal":
			err = c.signals.restore(rest, r.Value)
		case "host":
			var k keptHost
			if err = json.Unmarshal(r.Value, &k); err == nil {
				c.hosts[rest] = &host{status: k.Status, reason: k.Reason}
			}
		case "place":
			err = c.restorePlaces(rest, r.Value)
		case "event":
			var e control.Event
			if err = json.Unmarshal(r.Value, &e); err == nil {
				c.happened = append(c.happened, e)
				c.events = e.Number
			}
		default:
			err = fmt.Errorf("unknown kind of record")
		}
		if err != nil {
			return nil, fmt.Errorf("scheduler: restore: record %s: %w", wire.Shown(r.Key), err)
		}
	}
	if !found {
		return nil, fmt.Errorf("scheduler: restore: %d records, and none is of the job", len(records))
	}
	c.restoreServers()
	c.restoreSlow()
	for _, n := range c.nodes {
		n.member = c.phase == wire.PhaseRunning && n.counts()
	}
	if err := c.checkRestored(); err != nil {
		return nil, fmt.Errorf("scheduler: restore: %w", err)
	}
	if c.change.asked && c.reportsMissing() {
		c.change.reportsBy = now.Add(c.set.Elastic.RejoinTimeout)
	}
	for name, h := range c.hosts {
		if h.status == control.AddQueued && !c.hasWorkers(name) {
			h.by = now.Add(c.set.Elastic.JoinTimeout)
		}
	}
	c.dirty = dirty{}
	return c, nil
}

func (c *Core) restoreJob(value []byte) error {
	var k keptJob
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	if k.Job != c.set.Job {
		return fmt.Errorf("it is of job %q, this is job %q", k.Job, c.set.Job)
	}
	c.phase, c.generation, c.revision, c.reason, c.failure = k.Phase, k.Generation, k.Revision, k.Reason, k.Failure
	if k.Placement > 0 {
		c.placement, c.unsteady = k.Placement, k.Unsteady
	}
	if k.Ranks > maxServers && k.Ranks > c.set.Servers {
		return fmt.Errorf("it has %d ranks of servers, want at most %d", k.Ranks, maxServers)
	}
	c.ranks = max(c.set.Servers, k.Ranks)
	for _, x := range k.Coming {
		if x.Rank >= maxServers {
			return fmt.Errorf("server %d was asked for, want one below %d", x.Rank, maxServers)
		}
		c.newServers = append(c.newServers, comingServer{x, c.now.Add(c.set.Elastic.JoinTimeout)})
	}
	c.workers, c.changes, c.division, c.shares, c.before, c.stopping = k.Workers, k.Changes, k.Division, k.Shares, k.Before, k.Stopping
	c.stopsFor, c.stopped = k.StopsFor, k.Stopped
	c.scale.keptScale, c.asked.keptScale, c.wished = k.Scale, k.ScaleAsked, k.Wished
	if k.Pending {
		c.change = change{number: k.Changes, since: c.now, causes: k.Causes, loss: k.Loss, want: k.Want, asked: k.Asked, arrived: make(map[uint64]*wire.Arrive)}
		if k.Want > 0 {
			c.change.rejoinBy = c.now.Add(c.set.Elastic.RejoinTimeout)
		}
	}
	for _, s := range k.Settle {
		if s.Told == nil {
			s.Told = make(map[uint64]uint64)
		}
		c.lossReports[s.Lost] = &lossReport{s.Lost, s.Told}
	}
	return nil
}

func (c *Core) restoreNode(value []byte) error {
	var k keptNode
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	switch {
	case k.Node <= c.lastNode() || k.Node > math.MaxInt64:
		return fmt.Errorf("it is of node %d, want one above %d", k.Node, c.lastNode())
	case k.Role != wire.RoleServer && k.Role != wire.RoleWorker, int(k.State) >= len(memberStates), k.Life > removed:
		return fmt.Errorf("role %d, state %d, life %d: one of them is unknown", k.Role, k.State, k.Life)
	}
	n := &node{Member: k.Member, wanted: k.Wanted, process: k.Process, nonce: k.Nonce, state: k.Life, why: k.Why, heard: c.now, deadline: c.now.Add(c.set.Lease)}
	if k.Joins {
		n.joinBy = c.now.Add(c.set.Elastic.JoinTimeout)
	}
	c.nodes = append(c.nodes, n)
	return nil
}

func (c *Core) restoreKey(value []byte) error {
	var k keptKey
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	c.plan.grow(min(k.Servers, c.ranks))
	known := len(c.plan.keys)
	if n, refused := c.plan.declare(&k.Declare, k.By, 0).(*wire.Nack); refused {
		return fmt.Errorf("%v: %s", n.Code, n.Text)
	}
	if len(c.plan.keys) > known && k.Hash != 0 {
		c.plan.hash, c.plan.keys[k.Declare.Name].plan.Hash = k.Hash, k.Hash
	}
	return nil
}

func (c *Core) restorePlaces(number string, value []byte) error {
	var k keptPlaces
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	c.plan.grow(c.ranks) // all keys are there
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n >= uint64(len(c.plan.keys)) {
		return fmt.Errorf("want the number of one of %d keys", len(c.plan.keys))
	}
	return c.plan.restore(c.plan.byKey()[n], k)
}

// restoreServers finds out which ranks of servers are vacant.
func (c *Core) restoreServers() {
	if c.phase != wire.PhaseRunning {
		return
	}
	c.plan.grow(c.ranks)
	for rank := range c.plan.gone {
		c.plan.gone[rank] = c.serverOf(uint32(rank)) == 0
	}
	c.plan.recount()
}

func (m *waitTable) restore(number string, value []byte) error {
	var k keptName
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return err
	}
	if len(m.order) == 0 {
		m.first = n
	}
	if want := m.first + uint64(len(m.order)); n != want {
		return fmt.Errorf("want number %d", want)
	}
	m.mark(k.Name, k.Value)
	return nil
}

// checkRestored finds records that do not belong together.
func (c *Core) checkRestored() error {
	if c.phase < wire.PhaseForming || c.phase > wire.PhaseFailed {
		return fmt.Errorf("unknown phase %d", c.phase)
	}
	for _, id := range c.shares {
		if c.node(id) == nil {
			return fmt.Errorf("a part of the division belongs to node %d, which is unknown", id)
		}
	}
	if len(c.shares) > 0 && c.workers != len(c.shares) {
		return fmt.Errorf("%d workers, and %d parts of the division", c.workers, len(c.shares))
	}
	if len(c.before) != len(c.shares) {
		return fmt.Errorf("%d parts of the division, and examples used before of %d", len(c.shares), len(c.before))
	}
	for id := range c.lossReports {
		if c.node(id) == nil {
			return fmt.Errorf("the examples of lost node %d are to be counted, and the node is unknown", id)
		}
	}
	return nil
}
