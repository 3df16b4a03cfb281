package ruletext

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

// plain is a rule with settings, one of which may be another rule.
type plain struct {
	Least float64
	Inner fmt.Stringer
	Done  func()
	count int
}

func (plain) String() string { return "" }

var kinds = Kinds{reflect.TypeFor[fmt.Stringer]()}

// A rule is made again from its text, with the rules within it.
func TestARuleIsMadeAgain(t *testing.T) {
	text := kinds.Text(plain{Least: 0.5, Inner: &plain{Least: 2}, Done: func() {}, count: 3})
	if want := `{"ruletext.plain":{"Inner":{"*ruletext.plain":{"Least":2}},"Least":0.5}}`; string(text) != want {
		t.Fatalf("got %s, want %s", text, want)
	}
	m := NewMaker(kinds)
	m.Know(plain{Inner: &plain{}})
	got, err := Make[fmt.Stringer](m, text)
	if err != nil {
		t.Fatal(err)
	}
	if again := kinds.Text(got); string(again) != string(text) {
		t.Errorf("made again: got %s, want %s", again, text)
	}
	if _, err := Make[fmt.Stringer](NewMaker(kinds), text); err == nil {
		t.Error("a rule of an unknown type was made")
	}
}

// Two lists are told apart for people, even where only the types differ by a pointer.
func TestLabelsOfRulesDiffer(t *testing.T) {
	a, b := Labels([]json.RawMessage{kinds.Text(plain{})}, []json.RawMessage{kinds.Text(&plain{})})
	if a == b {
		t.Errorf("both are %s", a)
	}
	if a, _ := Labels([]json.RawMessage{kinds.Text(&plain{Least: 1})}, nil); a != `ruletext.plain{"Least":1}` {
		t.Errorf("got %s", a)
	}
}
