package shards

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

func wantError(t *testing.T, what string, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%s: got error %v, want %q in it", what, err, part)
	}
}

func TestPatternsOfShards(t *testing.T) {
	for _, tc := range []struct {
		pattern string
		want    []string
	}{
		{"a.tar", []string{"a.tar"}},
		{"n-{008..011}.tar", []string{"n-008.tar", "n-009.tar", "n-010.tar", "n-011.tar"}},
		{"n-{8..11}.tar", []string{"n-8.tar", "n-9.tar", "n-10.tar", "n-11.tar"}},
		{"n-{0..9..4}.tar", []string{"n-0.tar", "n-4.tar", "n-8.tar"}},
		{"{c..a}", []string{"c", "b", "a"}},
		{"{x,y{1..2},}.tar::z", []string{"x.tar", "y1.tar", "y2.tar", ".tar", "z"}},
		{"{a,b}/{0..1}", []string{"a/0", "a/1", "b/0", "b/1"}},
	} {
		got, err := Names(tc.pattern)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q (%v), want %q", tc.pattern, got, err, tc.want)
		}
	}
	for pattern, part := range map[string]string{
		"a::":                      "empty name",
		"{0..1":                    "without }",
		"0..1}":                    "without {",
		"{x}":                      "got {x}",
		"{1..x}":                   "got {1..x}",
		"{1..2..0}":                "got {1..2..0}",
		"{0..1000000}":             "more than 1000000 shards",
		"{0..999}{0..999}{0..1}":   "more than 1000000 shards",
		"{0..9223372036854775807}": "got {",
	} {
		_, err := Names(pattern)
		wantError(t, pattern, err, part)
	}
	if got, err := Names("{000000..001281}.tar"); err != nil || len(got) != 1282 || got[1281] != "001281.tar" {
		t.Errorf("got %d names (%v), want 1282", len(got), err)
	}
}

func TestObjectsOfAPatternAreFoundInItsOrder(t *testing.T) {
	files := map[string][]byte{"t/.hidden": nil, "u/n-00": nil}
	for k := range 12 {
		files[fmt.Sprintf("t/n-%02d", k)] = make([]byte, k)
	}
	store := objectstest.New(files)
	for pattern, want := range map[string]int{"t/n-{11..00}": 12, "t/n-1?::t/n-03::t/n-0*": 13, "t/n-05": 1, "*/n-00": 2} {
		found, err := Find(t.Context(), store, pattern)
		if err != nil || len(found) != want {
			t.Errorf("%s: got %d objects (%v), want %d", pattern, len(found), err, want)
			continue
		}
		if names, err := Names(pattern); err == nil && !strings.Contains(pattern, "*") {
			for k, info := range found {
				if info.Name != names[k] {
					t.Errorf("%s: object %d is %s, want %s", pattern, k, info.Name, names[k])
				}
			}
		}
	}
	for pattern, part := range map[string]string{"t/n-{00..12}": "shard t/n-12 of 13", "t/m*": `"t/m*"`, "t/[x": "syntax error", "{": "without }"} {
		_, err := Find(t.Context(), store, pattern)
		wantError(t, pattern, err, part)
	}
}

// Many shards are found by lists, of which one says a thousand; a store without lists is asked for
// each.
func TestManyShardsTakeFewRequests(t *testing.T) {
	files := make(map[string][]byte)
	for k := range 500 {
		files[fmt.Sprintf("n-%03d", k)] = nil
	}
	store := objectstest.New(files)
	if _, err := Find(t.Context(), store, "n-{000..499}"); err != nil {
		t.Fatal(err)
	}
	if calls := len(store.Calls()); calls != 1 {
		t.Errorf("500 shards took %d requests, want 1", calls)
	}
	store = objectstest.New(files)
	store.Fail = func(c objectstest.Call) error {
		if c.Kind == objectstest.List {
			return errors.ErrUnsupported
		}
		return nil
	}
	if found, err := Find(t.Context(), store, "n-{000..499}"); err != nil || len(found) != 500 {
		t.Errorf("without lists: got %d shards (%v), want 500", len(found), err)
	}
	if _, err := Stat(t.Context(), store, []string{"n-000", "no"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	var none []objects.Info
	if found, err := Stat(t.Context(), store, nil); err != nil || !slices.Equal(found, none) {
		t.Errorf("of no names: got %v, %v", found, err)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("n-{000..12}.tar::{a,b{0..1}}")
	f.Fuzz(func(t *testing.T, pattern string) {
		if len(pattern) > 200 || strings.Count(pattern, "..") > 2 {
			return
		}
		names, err := Names(pattern)
		if err == nil && len(names) == 0 {
			t.Errorf("%q stands for nothing", pattern)
		}
	})
}
