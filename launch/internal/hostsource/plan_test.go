package hostsource

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// answer reads "d1 d2=stopping d3/2": hosts with their states and slots.
func answer(t *testing.T, text string) (all []Instance) {
	t.Helper()
	for word := range strings.FieldsSeq(text) {
		name, state, _ := strings.Cut(word, "=")
		name, slots, limited := strings.Cut(name, "/")
		line := []string{name}
		if limited {
			line = append(line, "slots="+slots)
		}
		h, err := hosts.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Instance{Host: h, State: parseState(state), Word: state})
	}
	return all
}

// A hostFile is host_worker in memory.
type hostFile []hosts.Host

func (f hostFile) String() string {
	var all []string
	for _, h := range f {
		all = append(all, strings.ReplaceAll(h.Entry(), " slots=", "/"))
	}
	return strings.Join(all, " ")
}

func newHostFile(t *testing.T, text string) (f hostFile) {
	for _, i := range answer(t, text) {
		f = append(f, i.Host)
	}
	return f
}

func (f hostFile) carryOut(s step) hostFile {
	f = slices.DeleteFunc(slices.Clone(f), func(h hosts.Host) bool { return slices.ContainsFunc(s.edit.Removed, h.Same) })
	for i := range f {
		for _, h := range s.edit.Resized {
			if h.Same(f[i]) {
				f[i] = h
			}
		}
	}
	return append(f, s.edit.Added...)
}

func held(s step) string {
	var all []string
	for _, i := range s.held {
		all = append(all, i.String())
	}
	return strings.Join(all, ", ")
}

// Each line is an answer, what an operator did to the file before it (+d9, -d9), the file after it,
// and the hosts that are held back.
func TestAnswersBecomeEdits(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		force      bool

		// steps have the operator's edit, the answer, and the file, with those held back after a |.
		steps [][3]string
	}{
		{"hosts are added once, in the answer's order", "d1", false, [][3]string{
			{"", "d3 d2/4", "d1 d3 d2/4"}, {"", "d2/4 d3", "d1 d3 d2/4"}}},
		{"a host that is not running yet waits", "d1", false, [][3]string{
			{"", "d1 d2=pending", "d1"}, {"", "d1 d2=PENDING", "d1"}, {"", "d1 d2=running", "d1 d2"}}},
		{"one that is starting again keeps its place", "d1 d2", false, [][3]string{
			{"", "d1 d2", "d1 d2"}, {"", "d1 d2=pending", "d1 d2"}, {"", "d1 d2=pending", "d1 d2"}, {"", "d1 d2", "d1 d2"}}},
		{"one that stops leaves at once", "d1 d2", false, [][3]string{
			{"", "d1 d2", "d1 d2"}, {"", "d1 d2=stopping", "d1"}, {"", "d1 d2=stopped", "d1"}, {"", "d1 d2=pending", "d1"}, {"", "d1 d2", "d1 d2"}}},
		{"one that is not named leaves with the second answer", "d1 d2", false, [][3]string{
			{"", "d1 d2", "d1 d2"}, {"", "d1", "d1 d2"}, {"", "d1 d2", "d1 d2"}, {"", "d1", "d1 d2"}, {"", "d1", "d1"}, {"", "d1", "d1"}, {"", "d1 d2", "d1 d2"}}},
		{"one that nobody but an operator named stays", "d1 d2", false, [][3]string{
			{"+d9", "d1 d2", "d1 d2 d9"}, {"", "d1 d2", "d1 d2 d9"}, {"", "d1", "d1 d2 d9"}, {"", "d1", "d1 d9"}}},
		{"one that both named is the source's", "d1 d2 d9", false, [][3]string{
			{"", "d1 d2 d9", "d1 d2 d9"}, {"", "d1 d2", "d1 d2 d9"}, {"", "d1 d2", "d1 d2"}}},
		{"one that was forgotten and then added by hand is the operator's", "d1 d2", false, [][3]string{
			{"", "d1 d2", "d1 d2"}, {"-d2", "d1", "d1"}, {"", "d1", "d1"}, {"+d2", "d1", "d1 d2"}, {"", "d1", "d1 d2"}, {"", "d1", "d1 d2"}}},
		{"an operator's removal stands while it runs", "d1 d2", false, [][3]string{
			{"", "d1 d2", "d1 d2"}, {"-d2", "d1 d2", "d1"}, {"", "d1 d2=pending", "d1"}, {"", "d1 d2", "d1"}, {"", "d1", "d1"}, {"", "d1 d2", "d1"}, {"", "d1 d2=stopped", "d1"},
			{"", "d1 d2", "d1 d2"}}},
		{"an unknown state changes nothing", "d1 d2", false, [][3]string{
			{"", "d1 d2 d3=hibernated", "d1 d2"}, {"", "d1 d2=hibernated", "d1 d2"}, {"", "d1 d2", "d1 d2"}}},
		{"half of the hosts may leave at once", "d1 d2 d3 d4", false, [][3]string{
			{"", "d1 d2 d3 d4", "d1 d2 d3 d4"}, {"", "d1 d2 d3=draining d4=draining", "d1 d2"}}},
		{"more than half stay, as long as the answers say so", "d1 d2 d3", false, [][3]string{
			{"", "d1 d2 d3", "d1 d2 d3"}, {"", "d1", "d1 d2 d3"}, {"", "d1", "d1 d2 d3|d2 (no longer named), d3 (no longer named)"},
			{"", "d1", "d1 d2 d3|d2 (no longer named), d3 (no longer named)"}, {"", "d1 d3", "d1 d3"}}},
		{"more than half stay whatever the reason", "d1 d2 d3", false, [][3]string{
			{"", "d1 d2 d3", "d1 d2 d3"}, {"", "d1 d2=terminated", "d1 d3"}, {"", "d1=terminated", "d1 d3|d1 (terminated), d3 (no longer named)"}}},
		{"an operator removes what is held back", "d1 d2 d3", false, [][3]string{
			{"", "d1 d2 d3", "d1 d2 d3"}, {"", "d1 d2=stopped d3=stopped", "d1 d2 d3|d2 (stopped), d3 (stopped)"}, {"-d2", "d1 d2=stopped d3=stopped", "d1"}}},
		{"only the source's hosts count for the half", "d1 d2 d7 d8 d9", false, [][3]string{
			{"", "d1 d2", "d1 d2 d7 d8 d9"}, {"", "", "d1 d2 d7 d8 d9"}, {"", "", "d1 d2 d7 d8 d9|d1 (no longer named), d2 (no longer named)"}}},
		{"an empty list removes nothing", "d1 d2", false, [][3]string{
			{"", "", "d1 d2"}, {"", "d1 d2", "d1 d2"}, {"", "", "d1 d2"}, {"", "", "d1 d2|d1 (no longer named), d2 (no longer named)"}, {"", "d1 d2", "d1 d2"}}},
		{"with force more than half leave", "d1 d2 d3", true, [][3]string{
			{"", "d1 d2 d3", "d1 d2 d3"}, {"", "d1", "d1 d2 d3"}, {"", "d1", "d1"}}},
		{"with force an empty list leaves what an operator added", "d1 d9", true, [][3]string{
			{"", "d1", "d1 d9"}, {"", "", "d1 d9"}, {"", "", "d9"}}},
		{"with force the last hosts stay until there are others", "d1 d2", true, [][3]string{
			{"", "d1 d2", "d1 d2"}, {"", "", "d1 d2"}, {"", "", "d1 d2|d1 (no longer named), d2 (no longer named)"}, {"", "d3", "d3"}}},
		{"other limits are passed on, an operator's are kept", "d1/2 d2", false, [][3]string{
			{"", "d1/4 d2 d3/2", "d1/2 d2 d3/2"}, {"", "d1/4 d2 d3/2", "d1/2 d2 d3/2"}, {"", "d1/8 d2 d3/3", "d1/8 d2 d3/3"}}},
		{"other spellings are the same host", "D1. d2", false, [][3]string{
			{"", "d1 D2", "D1. d2"}, {"", "D2.", "D1. d2"}, {"", "d2", "d2"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := newHostFile(t, tc.file)
			var p plan
			for n, x := range tc.steps {
				for word := range strings.FieldsSeq(x[0]) {
					h := newHostFile(t, word[1:])[0]
					if file = slices.DeleteFunc(file, h.Same); word[0] == '+' {
						file = append(file, h)
					}
				}
				var s step
				p, s = p.next(answer(t, x[1]), file, tc.force)
				file = file.carryOut(s)
				got := file.String()
				if h := held(s); h != "" || strings.HasSuffix(x[2], "|") {
					got += "|" + h
				}
				if got != x[2] {
					t.Fatalf("answer %d, %q: host_worker is %q, want %q", n, x[1], got, x[2])
				}
			}
		})
	}
}

func TestUnknownStatesAreNamed(t *testing.T) {
	_, s := plan{}.next(answer(t, "d1 d2=hibernated d3=?"), nil, false)
	if len(s.unknown) != 2 || s.unknown[0].String() != "d2 (hibernated)" || s.unknown[1].String() != "d3 (?)" {
		t.Errorf("unknown: %v, want d2 (hibernated) and d3 (?)", s.unknown)
	}
}

// A plan that follows from an edit that could not be written is dropped, and the old one gives the
// same edit again.
func TestPlanIsNotChangedByItsNext(t *testing.T) {
	file := newHostFile(t, "d1 d2 d3 d4")
	var p plan
	p, _ = p.next(answer(t, "d1 d2 d3 d4"), file, false)
	p, _ = p.next(answer(t, "d1 d2 d4 d5=pending"), file, false)
	for range 3 {
		_, s := p.next(answer(t, "d1 d2/2 d4=stopped d5"), file, false)
		if got := file.carryOut(s).String(); got != "d1 d2/2 d5" {
			t.Fatalf("host_worker would be %q, want d1 d2/2 d5", got)
		}
	}
}

// Whatever answers and operators say: no answer removes more than half of the source's hosts, none
// removes a host that the source has not named, a host that the source calls running for the first
// time is added, one that is named as running is never removed, and the memory is bounded by what
// is named and listed.
func TestRandomAnswersKeepTheRules(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	words := []string{"running", "ready", "", "pending", "stopping", "terminated", "odd"}
	for range 30 {
		var p plan
		file := newHostFile(t, "d0 d1 d2 d3")
		ever := make(map[string]bool) // named

		// running has those of the last answer that named them.
		running := make(map[string]bool)
		for n := range 30 {
			if h := newHostFile(t, fmt.Sprintf("d%d", r.IntN(8)))[0]; r.IntN(3) == 0 { // an operator
				if file = slices.DeleteFunc(file, h.Same); r.IntN(2) == 0 || len(file) == 0 {
					file = append(file, h)
				}
			}
			text, state := "", make(map[string]string)
			for i := range 8 {
				if r.IntN(3) > 0 {
					name, word := fmt.Sprintf("d%d", i), words[r.IntN(len(words))]
					text += fmt.Sprintf("%s=%s ", name, word)
					state[name], ever[name] = word, true
				}
			}
			before := slices.Clone(file)
			managed := 0
			for _, h := range before {
				if _, ok := p.known[h.Key()]; ok || state[h.Name] != "" || ever[h.Name] {
					managed++
				}
			}
			var s step
			p, s = p.next(answer(t, text), file, false)
			file = file.carryOut(s)
			if len(file) == 0 || 2*len(s.edit.Removed) > s.managed || s.managed > managed {
				t.Fatalf("turn %d, %q: %d of %d hosts are removed, %d are left", n, text, len(s.edit.Removed), s.managed, len(file))
			}
			for _, h := range s.edit.Removed {
				if word, ok := state[h.Name]; !ever[h.Name] || ok && parseState(word) != Leaving {
					t.Fatalf("turn %d, %q: removed %s", n, text, h)
				}
			}
			for name, word := range state {
				use := parseState(word) == Usable
				if in := slices.ContainsFunc(file, newHostFile(t, name)[0].Same); use && !in && !running[name] {
					t.Fatalf("turn %d, %q: %s is not in %s", n, text, name, file)
				}
				if use || parseState(word) == Leaving {
					running[name] = use
				}
			}
			for name := range ever {
				if _, ok := p.known[newHostFile(t, name)[0].Key()]; !ok {
					delete(running, name) // forgotten
				}
			}
			if len(p.known) > 8 {
				t.Fatalf("%d hosts are known", len(p.known))
			}
		}
	}
}
