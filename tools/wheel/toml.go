package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	tableLine = regexp.MustCompile(`^\[([a-z.-]+)\]$`)
	valueLine = regexp.MustCompile(`^([a-z-]+) = (.+)$`)
	textValue = regexp.MustCompile(`^"([^"\\]*)"$`)
	listValue = regexp.MustCompile(`^\[("[^"\\]*"(, )?)*\]$`)
	quoted    = regexp.MustCompile(`"[^"]*"`)
)

// parseTOML reads the part of TOML that our pyproject.toml has: tables of texts and of lists of
// texts, a list on one line or with each text on a line of its own. Values are by TABLE.KEY.
func parseTOML(text string) (map[string][]string, error) {
	values, table := map[string][]string{}, ""

	// list is the key of the list whose texts follow; empty: none does.
	list := ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		name, value := tableLine.FindStringSubmatch(line), valueLine.FindStringSubmatch(line)
		var err error
		switch {
		case line == "" || line[0] == '#':
		case list != "" && line == "]":
			list = ""
		case list != "":
			err = addTexts(values, list, strings.TrimSuffix(line, ","))
		case name != nil:
			table = name[1]
		case value == nil:
			err = fmt.Errorf(`got %s, want [TABLE] or KEY = VALUE`, line)
		case value[2] == "[":
			list = table + "." + value[1]
		case listValue.MatchString(value[2]):
			err = addTexts(values, table+"."+value[1], quoted.FindAllString(value[2], -1)...)
		default:
			err = addTexts(values, table+"."+value[1], value[2])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return values, nil
}

// addTexts adds texts in quotation marks to the values of a key.
func addTexts(values map[string][]string, key string, texts ...string) error {
	for _, t := range texts {
		m := textValue.FindStringSubmatch(t)
		if m == nil {
			return fmt.Errorf("%s: got %s, want a text in quotation marks, or a list of them", key, t)
		}
		values[key] = append(values[key], m[1])
	}
	return nil
}
