package hostsource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A State is what an answer says of a host.
type State uint8

// The states.
const (
	// Usable instances may have workers.
	Usable State = iota

	// Coming instances are not there yet.
	Coming

	// Leaving instances will be gone soon: their workers are to leave.
	Leaving

	// Unknown stands for any word that states does not have.
	Unknown
)

// states are the words of the clouds and of schedulers, in lower case and with - for blanks,
// underscores and colons.
var states = map[string]State{
	"": Usable, "running": Usable, "ready": Usable, "active": Usable,

	"pending": Coming, "provisioning": Coming, "staging": Coming, "creating": Coming, "starting": Coming, "booting": Coming, "repairing": Coming,

	"draining": Leaving, "drained": Leaving, "leaving": Leaving, "stopping": Leaving, "stopped": Leaving, "pending-stop": Leaving, "shutting-down": Leaving,
	"terminating": Leaving, "terminated": Leaving, "deallocating": Leaving, "deallocated": Leaving, "deprovisioning": Leaving, "suspending": Leaving,
	"suspended": Leaving, "deleting": Leaving, "deleted": Leaving, "preempted": Leaving, "failed": Leaving,
}

var stateBlanks = strings.NewReplacer(" ", "-", "_", "-", ":", "-")

// parseState reads a state's word. Azure writes VM before it.
func parseState(word string) State {
	w := stateBlanks.Replace(strings.ToLower(strings.TrimSpace(word)))
	if s, ok := states[strings.TrimPrefix(w, "vm-")]; ok {
		return s
	}
	return Unknown
}

// An Instance is what an answer says of one host.
type Instance struct {
	// Host comes without Line.
	Host hosts.Host

	State State

	// Word is the source's word for the state, as it came.
	Word string
}

// String is the host and its state.
func (i Instance) String() string {
	if i.Word == "" {
		return i.Host.String()
	}
	return fmt.Sprintf("%s (%s)", i.Host, i.Word)
}

// Limits of an answer.
const (
	maxAnswer = 1 << 20 // bytes
	maxHosts  = 5000    // no job has more nodes
	maxWord   = 64      // bytes of a state
)

// An entry is an object of an answer. Numbers may be written as text, as tags are.
type entry struct {
	Host  *string
	Slots json.Number
	GPUs  json.Number
	CPUs  json.Number
	State string
}

// decode reads an answer: JSON objects, one on each line, or an array of them. Each host is
// returned once. A host that is named several times, as an instance that has ended and the one that
// took its name, is running if one of its entries says so.
func decode(answer []byte) ([]Instance, error) {
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("got more than %d bytes; is it a list of hosts?", maxAnswer)
	}
	answer = bytes.TrimPrefix(answer, []byte("\ufeff"))
	var all []Instance

	// index is the place in all, by Key.
	index := make(map[hosts.Host]int)
	add := func(where string, n int, e *entry) error {
		i, err := e.instance()
		if err == nil {
			all, err = merge(all, index, i)
		}
		if err != nil {
			return fmt.Errorf("%s %d: %w", where, n, err)
		}
		return nil
	}
	if text := bytes.TrimSpace(answer); bytes.HasPrefix(text, []byte("[")) {
		var list []*entry
		if err := unmarshal(text, &list); err != nil {
			return nil, err
		}
		for n, e := range list {
			if err := add("element", n+1, e); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	n := 0
	for line := range bytes.Lines(answer) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e *entry
		if err := unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := add("line", n, e); err != nil {
			return nil, err
		}
	}
	return all, nil
}

const want = `want {"host":"d3","slots":2,"gpus":1,"state":"running"}`

// unmarshal is json.Unmarshal with errors that say what was wanted.
func unmarshal(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	wrong, isType := errors.AsType[*json.UnmarshalTypeError](err)
	syntax, isSyntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case err == nil:
		return nil
	case isType && wrong.Field != "":
		return fmt.Errorf("%q is a JSON %s; %s", strings.ToLower(wrong.Field), wrong.Value, want)
	case isType:
		return fmt.Errorf("got a JSON %s; %s", wrong.Value, want)
	case isSyntax && syntax.Offset >= int64(len(text)):
		return fmt.Errorf("%.60q is incomplete: %w; %s", text, io.ErrUnexpectedEOF, want)
	}
	return fmt.Errorf("%.60q is not JSON: %w; %s", text, err, want)
}

// instance reads an entry, with the rules of a line of a hosts file.
func (e *entry) instance() (Instance, error) {
	if e == nil || e.Host == nil {
		return Instance{}, fmt.Errorf("no host is named; %s", want)
	}
	if len(e.State) > maxWord {
		return Instance{}, fmt.Errorf("the state has %d bytes, want at most %d; %s", len(e.State), maxWord, want)
	}
	if strings.ContainsFunc(e.State, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Instance{}, fmt.Errorf("the state is %q, want a word; %s", e.State, want)
	}
	line := []string{*e.Host}
	for _, limit := range []struct {
		name  string
		value json.Number
	}{{"slots", e.Slots}, {"gpus", e.GPUs}, {"cpus", e.CPUs}} {
		if limit.value != "" {
			line = append(line, limit.name+"="+string(limit.value))
		}
	}
	h, err := hosts.ParseLine(line)
	if err != nil {
		return Instance{}, err
	}
	return Instance{Host: h, State: parseState(e.State), Word: e.State}, nil
}

// certainty orders the states of a host that is named several times.
var certainty = [...]int{Usable: 3, Coming: 2, Unknown: 1, Leaving: 0}

// merge adds an instance to all, or to the one of its host. index has the place of each host by its
// Key.
func merge(all []Instance, index map[hosts.Host]int, i Instance) ([]Instance, error) {
	at, ok := index[i.Host.Key()]
	if !ok {
		if len(all) == maxHosts {
			return nil, fmt.Errorf("got more than %d hosts", maxHosts)
		}
		index[i.Host.Key()] = len(all)
		return append(all, i), nil
	}
	old := all[at]
	switch {
	case old.State == Usable && i.State == Usable && (old.Host.Slots != i.Host.Slots || !old.Host.SameLimits(i.Host)):
		return nil, fmt.Errorf("%s is named twice, as %q and as %q; want it once", i.Host, old.Host.Entry(), i.Host.Entry())
	case certainty[i.State] > certainty[old.State]:
		all[at] = i
	}
	return all, nil
}
