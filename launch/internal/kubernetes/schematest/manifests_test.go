package schematest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

// An object is a manifest as it was written.
type object map[string]any

func (o object) kind() string { return o["kind"].(string) }

func (o object) name() string { return o["metadata"].(map[string]any)["name"].(string) }

// manifests reads the documents of a golden file.
func manifests(t *testing.T, file string) []object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func parse(t *testing.T, text []byte) (all []object) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var o map[string]any
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if o != nil {
			all = append(all, object(o))
		}
	}
}

func find(t *testing.T, all []object, kind, name string) object {
	t.Helper()
	for _, o := range all {
		if o.kind() == kind && o.name() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// moduleFolder is where the source of a module is.
var moduleFolder = func() func(t *testing.T, module string) string {
	var mu sync.Mutex
	folders := make(map[string]string)
	return func(t *testing.T, module string) string {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if folders[module] == "" {
			out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
			if err != nil {
				t.Fatalf("go list -m %s: %v", module, err)
			}
			folders[module] = strings.TrimSpace(string(out))
		}
		return folders[module]
	}
}()

// golden are the files of ../testdata.
func golden(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "*.yaml"))
	if err != nil || len(paths) != 3 {
		t.Fatalf("golden manifests are %q, %v, want 3", paths, err)
	}
	for i, p := range paths {
		paths[i] = filepath.Base(p)
	}
	return paths
}
