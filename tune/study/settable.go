package study

import (
	"reflect"
	"strings"
)

func settable(p any) reflect.Value { return reflect.ValueOf(p).Elem() }

func list(names []string) string { return strings.Join(names, ", ") }
