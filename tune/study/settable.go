package study

import (
	"reflect"
	"strings"
)

// settable is what a pointer points to, as the reader fills it.
func settable(p any) reflect.Value { return reflect.ValueOf(p).Elem() }

// list is names for a message.
func list(names []string) string { return strings.Join(names, ", ") }
