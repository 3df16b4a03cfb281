package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A wait is a request of a node that is answered later: when something has happened, or at its
// deadline with a refusal.
type wait struct {
	request uint64
	node    uint64
	// name is what the node waits for: a barrier's, a signal's, or a text for people.
	name string
	// sender is, of a wait for a signal, the worker that has to send it.
	sender   uint64
	since    time.Time
	deadline time.Time
}

// newWait is a wait that begins now, for as long as the request allows. Nodes ask for a few seconds
// and ask again, so that a lost answer costs no more.
func newWait(now time.Time, request, node uint64, name string, millis uint32) wait {
	return wait{request: request, node: node, name: name, since: now, deadline: now.Add(time.Duration(millis) * time.Millisecond)}
}

// waited is how long the wait has lasted, for people.
func (w *wait) waited(now time.Time) string { return control.Seconds(now.Sub(w.since)) }

// A waitList has waits, oldest first.
type waitList []wait

func (l *waitList) add(w wait) { *l = append(*l, w) }

// remove takes out and returns the waits that match, oldest first.
func (l *waitList) remove(match func(wait) bool) (out []wait) {
	*l = slices.DeleteFunc(*l, func(w wait) bool {
		matches := match(w)
		if matches {
			out = append(out, w)
		}
		return matches
	})
	return out
}

// late takes out the waits whose time is over.
func (l *waitList) late(now time.Time) []wait {
	return l.remove(func(w wait) bool { return !now.Before(w.deadline) })
}

// end refuses every wait, since the job has ended.
func (l *waitList) end(out *output, what func(wait) string) {
	for _, w := range l.remove(func(wait) bool { return true }) {
		out.refuse(w.request, wire.CodeUnavailable, "%s: %s", what(w), out.job.ended())
	}
}

func (l *waitList) next(bool) (t time.Time) {
	for _, w := range *l {
		t = sooner(t, w.deadline)
	}
	return t
}

// forget drops the wait of a request whose sender is gone.
func (l *waitList) forget(request uint64) {
	l.remove(func(w wait) bool { return w.request == request })
}

// Bounds of the memory for what happened: names, and bytes of their values (one value is at most
// wire.MaxHead).
const (
	maxNames  = 1 << 16
	maxValues = 8 << 20
)

// A nameLog remembers the names that happened last, with their values: a name happens once, and a
// request for it that is repeated after a lost answer must find it. The names are in the journal,
// numbered as they happened.
type nameLog struct {
	// kind is the first part of the records' keys.
	kind   string
	values map[string]string
	// order has the names, oldest first, and first is the number of the first of them.
	order []string
	first uint64
	// bytes is the length of all values.
	bytes int
}

// happened reports whether a name did, and returns its value.
func (l *nameLog) happened(name string) (value string, ok bool) {
	value, ok = l.values[name]
	return value, ok
}

// add notes that a name happened. The first value stays.
func (l *nameLog) add(out *output, name, value string) {
	if _, ok := l.values[name]; ok {
		return
	}
	out.put(l.key(len(l.order)), keptName{name, value})
	l.mark(name, value)
	if len(l.order) > maxNames {
		out.drop(l.key(0))
		l.bytes -= len(l.values[l.order[0]])
		delete(l.values, l.order[0])
		l.order = l.order[1:]
		l.first++
	}
}

// mark remembers a name without recording it.
func (l *nameLog) mark(name, value string) {
	if l.values == nil {
		l.values = make(map[string]string)
	}
	l.values[name] = value
	l.bytes += len(value)
	l.order = append(l.order, name)
}

// key is the key of the record of the ith name.
func (l *nameLog) key(i int) string { return fmt.Sprintf("%s/%012d", l.kind, l.first+uint64(i)) }

// A keptName is the record of a name that happened.
type keptName struct {
	Name  string
	Value string `json:",omitempty"`
}

// restore takes the record of one name. Their numbers have no gap: the oldest are dropped first.
func (l *nameLog) restore(number string, value []byte) error {
	var k keptName
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return err
	}
	if len(l.order) == 0 {
		l.first = n
	}
	if want := l.first + uint64(len(l.order)); n != want {
		return fmt.Errorf("want number %d", want)
	}
	l.mark(k.Name, k.Value)
	return nil
}
