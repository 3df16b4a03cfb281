// Package slots allocates the slots, processors and GPUs of nodes to trials.
//
// One Allocator owns all of them: each is allocated to one trial at a time. Requests are served in
// the order of their arrival. A request that has to wait holds back those behind it, so that small
// requests cannot starve a large one. Nodes may be added and removed at any time.
package slots

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/observe/plural"
)

// ErrLost is the cause of the end of a Grant one of whose nodes has gone.
var ErrLost = errors.New("its node was removed")

// A Node is a machine.
type Node struct {
	Name string
	// CPUs are numbers of processors, as in an affinity set.
	CPUs []int
	// GPUs are numbers or UUIDs, as CUDA_VISIBLE_DEVICES takes them.
	GPUs []string
	// Slots are the workers that run there at a time; 0: as many as processors and GPUs allow.
	Slots int
}

// A Request is what one trial needs: on each of Hosts different nodes, slots for so many Workers,
// and so many processors and GPUs for all of them. Zero Hosts is one. A request for nothing of a
// kind can share a node that has none of it left.
type Request struct {
	Hosts, Workers, CPUs, GPUs int
}

// negative says whether a number of the request is below 0.
func (r Request) negative() bool { return r.Hosts < 0 || r.Workers < 0 || r.CPUs < 0 || r.GPUs < 0 }

// String says for people what the request is for.
func (r Request) String() string {
	text := fmt.Sprintf("%s and %s", plural.Of(r.CPUs, "CPU"), plural.Of(r.GPUs, "GPU"))
	if r.Workers > 1 {
		text = fmt.Sprintf("%d workers, %s", r.Workers, text)
	}
	if r.Hosts > 1 {
		text += fmt.Sprintf(" on each of %d nodes", r.Hosts)
	}
	return text
}

// A Part is what a trial has of one node. The lists are sorted as the node's are.
type Part struct {
	Node string
	CPUs []int
	GPUs []string
}

// A Grant is what one trial has. Its nodes are in the order in which they were added.
type Grant struct {
	Parts []Part

	of *Allocator
	// lost is closed when a node of the grant has gone.
	lost chan struct{}
	// gone is the name of the node.
	gone string
	// over says that all of it was given back.
	over bool
}

// Lost is closed when a node of the grant has gone; Gone names it then.
func (g *Grant) Lost() <-chan struct{} { return g.lost }

// Gone names the node that has gone; "" if none has.
func (g *Grant) Gone() string {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	return g.gone
}

// Release gives all of it back. It may be called again.
func (g *Grant) Release() {
	a := g.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if g.over {
		return
	}
	g.over = true
	delete(a.grants, g)
	for _, n := range slices.Clone(a.nodes) {
		n.free(g)
		a.drop(n)
	}
	a.serve()
	a.tell()
}

// An Allocator gives out the nodes' processors and GPUs. Its methods may be called together.
type Allocator struct {
	// mu guards all below.
	mu sync.Mutex
	// nodes are in the order in which they were added.
	nodes []*node
	// queue is served in its order: who came first is served first.
	queue []*waiting
	// grants and holdings are those that were not released.
	grants map[*Grant]bool

	holdings map[*Holding]bool
	// changed is closed at the next change.
	changed chan struct{}
}

// A node is a Node with what is left of it.
type node struct {
	Node
	// cpuOf has for each processor the grant that it belongs to; nil: it is free.
	cpuOf []*Grant
	gpuOf []*Grant
	// workers has by grant how many workers run for it.
	workers map[*Grant]int
	// draining says that the node gives out nothing any more.
	draining bool
	// aside says that the node gives out nothing to new grants, for now.
	aside bool
}

// A waiting is a request in the queue.
type waiting struct {
	request Request
	// grant holds the one that the request is served with.
	grant chan *Grant
}

// New makes an allocator of these nodes.
func New(nodes ...Node) (*Allocator, error) {
	a := &Allocator{grants: make(map[*Grant]bool), holdings: make(map[*Holding]bool), changed: make(chan struct{})}
	for _, n := range nodes {
		if err := a.Add(n); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Add adds a node. Names are unique, and so are the numbers on a node. One that is leaving stays,
// with the processors and GPUs that it had.
func (a *Allocator) Add(n Node) error {
	if n.Name == "" {
		return errors.New("slots: add: the node has no name")
	}
	if i := repeated(n.CPUs); i >= 0 {
		return fmt.Errorf("slots: add node %s: CPU %d is named twice", n.Name, n.CPUs[i])
	}
	if i := repeated(n.GPUs); i >= 0 {
		return fmt.Errorf("slots: add node %s: GPU %s is named twice", n.Name, n.GPUs[i])
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.find(n.Name); old != nil {
		if !old.draining {
			return fmt.Errorf("slots: add node %s: it exists already", n.Name)
		}
		old.draining, old.aside, old.Slots = false, false, n.Slots
		a.serve()
		a.tell()
		return nil
	}
	n.CPUs, n.GPUs = slices.Clone(n.CPUs), slices.Clone(n.GPUs)
	a.nodes = append(a.nodes, &node{Node: n, cpuOf: make([]*Grant, len(n.CPUs)), gpuOf: make([]*Grant, len(n.GPUs)), workers: make(map[*Grant]int)})
	a.serve()
	a.tell()
	return nil
}

// repeated is the index of the first element that was there before, or -1.
func repeated[T comparable](list []T) int {
	seen := make(map[T]bool)
	for i, x := range list {
		if seen[x] {
			return i
		}
		seen[x] = true
	}
	return -1
}

// Drain lets a node give out nothing more; what was given out stays until it is given back, and
// then the node is gone.
func (a *Allocator) Drain(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.find(name)
	if n == nil {
		return fmt.Errorf("slots: drain node %s: there is no such node; the nodes are %s", name, a.names())
	}
	n.draining = true
	a.drop(n)
	a.tell()
	return nil
}

// SetAside lets a node serve no request of Acquire until TakeBack. What was given out stays, and
// holdings go on to take from it.
func (a *Allocator) SetAside(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.find(name)
	if n == nil {
		return fmt.Errorf("slots: set node %s aside: there is no such node; the nodes are %s", name, a.names())
	}
	n.aside = true
	a.tell()
	return nil
}

// TakeBack ends SetAside. It reports whether there is such a node.
func (a *Allocator) TakeBack(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.find(name)
	if n == nil {
		return false
	}
	n.aside = false
	a.serve()
	a.tell()
	return true
}

// Lose takes a node out at once: grants that have a part of it are told.
func (a *Allocator) Lose(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.find(name)
	if n == nil {
		return fmt.Errorf("slots: lose node %s: there is no such node; the nodes are %s", name, a.names())
	}
	a.nodes = slices.DeleteFunc(a.nodes, func(x *node) bool { return x == n })
	for g := range a.grants {
		if g.gone == "" && slices.ContainsFunc(g.Parts, func(p Part) bool { return p.Node == name }) {
			g.gone = name
			close(g.lost)
		}
	}
	for h := range a.holdings {
		h.units = slices.DeleteFunc(h.units, func(u *Unit) bool { return u.Node == name })
	}
	a.tell()
	return nil
}

// Fits is an error that names the request and the nodes if they could not serve it even if all were
// free.
func (a *Allocator) Fits(r Request) error {
	if r.negative() {
		return fmt.Errorf("slots: request %+v: want no number below 0", r)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	able := 0
	for _, n := range a.nodes {
		if !n.draining && n.usage().Fit(r) > 0 {
			able++
		}
	}
	if able >= max(r.Hosts, 1) {
		return nil
	}
	return fmt.Errorf("slots: it needs %v, which does not fit: %s", r, a.describe())
}

// describe says for people what the nodes have. a.mu is held.
func (a *Allocator) describe() string {
	if len(a.nodes) == 0 {
		return "there is no node"
	}
	var parts []string
	for _, n := range a.nodes {
		text := fmt.Sprintf("%s has %s and %s", n.Name, plural.Of(len(n.CPUs), "CPU"), plural.Of(len(n.GPUs), "GPU"))
		if n.Slots > 0 {
			text = fmt.Sprintf("%s has %s, %s and %s", n.Name, plural.Of(n.Slots, "slot"), plural.Of(len(n.CPUs), "CPU"), plural.Of(len(n.GPUs), "GPU"))
		}
		switch {
		case n.draining:
			text += " (leaving)"
		case n.aside:
			text += " (set aside)"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// Acquire waits until the request can be served. When ctx ends its error says how long the queue
// was before it and what is there.
func (a *Allocator) Acquire(ctx context.Context, r Request) (*Grant, error) {
	if r.negative() {
		return nil, fmt.Errorf("slots: request %+v: want no number below 0", r)
	}
	w := &waiting{request: r, grant: make(chan *Grant, 1)}
	a.mu.Lock()
	a.queue = append(a.queue, w)
	a.serve()
	a.mu.Unlock()
	select {
	case g := <-w.grant:
		return g, nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	before := slices.Index(a.queue, w)
	if before >= 0 {
		a.queue = slices.Delete(a.queue, before, before+1)
		// Those behind it may go on.
		a.serve()
	}
	nodes := a.describe()
	a.mu.Unlock()
	if before < 0 {
		// It was served meanwhile.
		return <-w.grant, nil
	}
	return nil, fmt.Errorf("slots: wait for %v with %s ahead in the queue; %s: %w", r, plural.Of(before, "request"), nodes, context.Cause(ctx))
}

// Usage is what a node has and what of it is given out.
type Usage struct {
	Name string
	// Slots is 0 if any number of workers may run there.
	Slots, CPUs, GPUs             int
	UsedSlots, UsedCPUs, UsedGPUs int
	Leaving, Aside                bool
}

// Fit is how many requests for one host a node that is free could serve together. Of nothing there
// is any number.
func (u Usage) Fit(r Request) int {
	n := math.MaxInt
	slots := u.Slots
	if slots == 0 {
		slots = math.MaxInt
	}
	for _, x := range []struct{ have, want int }{{slots, r.Workers}, {u.CPUs, r.CPUs}, {u.GPUs, r.GPUs}} {
		if x.want > 0 {
			n = min(n, x.have/x.want)
		}
	}
	return n
}

// Usage tells about all nodes, in the order in which they were added.
func (a *Allocator) Usage() []Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []Usage
	for _, n := range a.nodes {
		all = append(all, n.usage())
	}
	return all
}

// usage is what the node has and what of it is given out.
func (n *node) usage() Usage {
	return Usage{Name: n.Name, Slots: n.Slots, CPUs: len(n.CPUs), GPUs: len(n.GPUs),
		UsedSlots: n.busy(), UsedCPUs: len(n.CPUs) - left(n.cpuOf), UsedGPUs: len(n.GPUs) - left(n.gpuOf), Leaving: n.draining, Aside: n.aside}
}

// serve gives to those who wait first for as long as there is enough. It stops at the first request
// that has to wait, though a later one would fit: else small requests could keep a large one
// waiting for ever. a.mu is held, as in all methods below.
func (a *Allocator) serve() {
	for len(a.queue) > 0 {
		g := a.take(a.queue[0].request)
		if g == nil {
			return
		}
		a.queue[0].grant <- g
		a.queue = a.queue[1:]
	}
}

// take finds nodes for a request: those with the fewest free processors that suffice, so that large
// pieces stay whole. It returns nil if there are not enough.
func (a *Allocator) take(r Request) *Grant {
	var able []*node
	for _, n := range a.nodes {
		if n.room(r) && !n.aside {
			able = append(able, n)
		}
	}
	hosts := max(r.Hosts, 1)
	if len(able) < hosts {
		return nil
	}
	slices.SortStableFunc(able, func(x, y *node) int {
		// A node with GPUs is the last that a request without should take.
		if r.GPUs == 0 && (len(x.GPUs) > 0) != (len(y.GPUs) > 0) {
			return b2i(len(x.GPUs) > 0) - b2i(len(y.GPUs) > 0)
		}
		if d := left(x.gpuOf) - left(y.gpuOf); d != 0 {
			return d
		}
		return left(x.cpuOf) - left(y.cpuOf)
	})
	chosen := able[:hosts]
	g := &Grant{of: a, lost: make(chan struct{})}
	for _, n := range a.nodes {
		if slices.Contains(chosen, n) {
			g.Parts = append(g.Parts, n.take(g, r))
		}
	}
	a.grants[g] = true
	return g
}

// b2i is 1 for true and 0 for false.
func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// find is the node of a name, or nil.
func (a *Allocator) find(name string) *node {
	for _, n := range a.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// names are the nodes for a message.
func (a *Allocator) names() string {
	var names []string
	for _, n := range a.nodes {
		names = append(names, n.Name)
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// drop takes out a node that is leaving and holds nothing.
func (a *Allocator) drop(n *node) {
	if n.draining && left(n.cpuOf) == len(n.CPUs) && left(n.gpuOf) == len(n.GPUs) && !a.within(n) {
		a.nodes = slices.DeleteFunc(a.nodes, func(x *node) bool { return x == n })
	}
}

// within says whether a grant has a part of the node, even if nothing of it.
func (a *Allocator) within(n *node) bool {
	for g := range a.grants {
		if g.gone != n.Name && slices.ContainsFunc(g.Parts, func(p Part) bool { return p.Node == n.Name }) {
			return true
		}
	}
	for h := range a.holdings {
		if slices.ContainsFunc(h.units, func(u *Unit) bool { return u.Node == n.Name }) {
			return true
		}
	}
	return false
}

// left is how many nobody has.
func left(of []*Grant) (n int) {
	for _, g := range of {
		if g == nil {
			n++
		}
	}
	return n
}

// busy is how many slots are in use.
func (n *node) busy() (workers int) {
	for _, k := range n.workers {
		workers += k
	}
	return workers
}

// take gives a grant what it asks for, which the caller knows to be free: the first processors and
// GPUs in the node's order.
func (n *node) take(g *Grant, r Request) Part {
	p := Part{Node: n.Name}
	n.workers[g] = r.Workers
	for i := range n.cpuOf {
		if len(p.CPUs) < r.CPUs && n.cpuOf[i] == nil {
			n.cpuOf[i], p.CPUs = g, append(p.CPUs, n.CPUs[i])
		}
	}
	for i := range n.gpuOf {
		if len(p.GPUs) < r.GPUs && n.gpuOf[i] == nil {
			n.gpuOf[i], p.GPUs = g, append(p.GPUs, n.GPUs[i])
		}
	}
	return p
}

// free gives back what a grant has of the node.
func (n *node) free(g *Grant) {
	delete(n.workers, g)
	for i := range n.cpuOf {
		if n.cpuOf[i] == g {
			n.cpuOf[i] = nil
		}
	}
	for i := range n.gpuOf {
		if n.gpuOf[i] == g {
			n.gpuOf[i] = nil
		}
	}
}
