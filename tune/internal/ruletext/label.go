package ruletext

import (
	"cmp"
	"encoding/json"
	"strings"
)

// TypeName is the Go type of the rule that a text is of.
func TypeName(text json.RawMessage) string {
	var named map[string]json.RawMessage
	// The name is for people: "" if the line has none.
	_ = json.Unmarshal(text, &named)
	for name := range named {
		return name
	}
	return ""
}

// Labels are two lists of texts of rules that differ, for people: as label has them, or whole if
// that leaves out the difference.
func Labels(was, is []json.RawMessage) (string, string) {
	if a, b := list(was, label), list(is, label); a != b {
		return a, b
	}
	whole := func(text json.RawMessage) string { return string(text) }
	return list(was, whole), list(is, whole)
}

// list is a list of texts for people, each as asText has it.
func list(texts []json.RawMessage, asText func(json.RawMessage) string) string {
	var all []string
	for _, text := range texts {
		all = append(all, asText(text))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// label is the text of a rule for people: schedule.ASHA{"MaxStep":5}.
func label(text json.RawMessage) string {
	var named map[string]json.RawMessage
	if json.Unmarshal(text, &named) != nil || len(named) != 1 {
		return string(text)
	}
	name := ""
	for goType, settings := range named {
		name = strings.TrimPrefix(goType, "*")
		if len(settings) > len("{}") && string(settings) != "null" {
			name += string(settings)
		}
	}
	return name
}
