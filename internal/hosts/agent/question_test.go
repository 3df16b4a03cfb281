package agent

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
)

func ask(t *testing.T, q Question) Answer {
	t.Helper()
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return answer(t.Context(), b, func() ([]string, error) { return []string{"GPU-a", "GPU-b"}, nil })
}

func TestAMachineSaysWhatItHas(t *testing.T) {
	a := ask(t, Question{Hardware: true})
	if want := affinity.Own(); a.Err != "" || !slices.Equal(a.CPUs, want) || !slices.Equal(a.GPUs, []string{"GPU-a", "GPU-b"}) {
		t.Errorf("got processors %v, GPUs %q and error %q, want %v and two GPUs", a.CPUs, a.GPUs, a.Err, want)
	}
	broken := func() ([]string, error) { return nil, errors.New("the driver does not answer") }
	if a := answer(t.Context(), []byte(`{"Hardware": true}`), broken); a.GPUErr != "the driver does not answer" || len(a.CPUs) == 0 {
		t.Errorf("with a broken driver: got error %q and processors %v, want the error and some", a.GPUErr, a.CPUs)
	}
}

// Who makes a folder for a moment knows what to remove afterwards, and removes nothing else.
func TestFoldersThatWereMadeAreToldAndRemoved(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b", "c")
	a := ask(t, Question{MakeDir: deep, Own: true})
	want := []string{deep, filepath.Dir(deep), filepath.Join(root, "a")}
	if a.Err != "" || !slices.Equal(a.Made, want) {
		t.Errorf("made %q, %s, want %q", a.Made, a.Err, want)
	}
	if again := ask(t, Question{MakeDir: deep, Own: true}); again.Err != "" || len(again.Made) != 0 {
		t.Errorf("made %q, %s, want nothing new", again.Made, again.Err)
	}
	file := filepath.Join(root, "a", "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if a := ask(t, Question{Remove: want}); a.RemoveErr != "" || !slices.Equal(a.Left, want[2:]) {
		t.Errorf("left %q, %s, want the folder with a file", a.Left, a.RemoveErr)
	}
	if a := ask(t, Question{Remove: []string{file, filepath.Join(root, "a")}}); a.RemoveErr != "" || len(a.Left) != 0 {
		t.Errorf("left %q, %s, want nothing", a.Left, a.RemoveErr)
	}
	if a := ask(t, Question{Remove: []string{file}}); !strings.Contains(a.RemoveErr, "no such file") || len(a.Left) != 0 {
		t.Errorf("a file that is not there: left %q, %q, want why", a.Left, a.RemoveErr)
	}
	if err := os.WriteFile(filepath.Join(root, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if a := ask(t, Question{MakeDir: filepath.Join(root, "f", "g")}); !strings.Contains(a.Err, "not a directory") || len(a.Made) != 0 {
		t.Errorf("below a file: made %q, %q, want an error", a.Made, a.Err)
	}
}

func TestAFolderOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("to root every folder is its own")
	}
	if a := ask(t, Question{MakeDir: "/tmp", Own: true}); !strings.Contains(a.Err, "/tmp belongs to another user") {
		t.Errorf("got %q, want an error", a.Err)
	}
}
