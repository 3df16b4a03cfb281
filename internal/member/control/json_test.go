package control

import (
	"reflect"
	"regexp"
	"testing"
)

// What people and their tools read has names of one style.
func TestAnswersHaveSnakeCaseKeys(t *testing.T) {
	style := regexp.MustCompile(`^[a-z]+(_[a-z]+)*(,omit(empty|zero))?$`)
	seen := make(map[reflect.Type]bool)
	var check func(path string, x reflect.Type)
	check = func(path string, x reflect.Type) {
		for x.Kind() == reflect.Pointer || x.Kind() == reflect.Slice {
			x = x.Elem()
		}
		if x.Kind() != reflect.Struct || seen[x] {
			return
		}
		seen[x] = true
		for i := range x.NumField() {
			f := x.Field(i)
			if tag := f.Tag.Get("json"); !style.MatchString(tag) {
				t.Errorf("%s.%s has the key %q, want words of small letters with _ between them", path, f.Name, tag)
			}
			check(path+"."+f.Name, f.Type)
		}
	}
	for _, x := range []any{Status{}, Why{}, Events{}, Done{}, Wanted{}, Request{}, Report{}, Result{}} {
		check(reflect.TypeOf(x).Name(), reflect.TypeOf(x))
	}
	if len(seen) < 12 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
