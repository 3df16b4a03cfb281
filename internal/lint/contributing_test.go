package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted      = regexp.MustCompile("`([^`\n]+)`")
	namedFile   = regexp.MustCompile(`^[a-z][\w-]*(/[\w.-]+)+$`)
	namedCommit = regexp.MustCompile(`^[0-9a-f]{8}$`)
	namedTest   = regexp.MustCompile(`^Test[A-Z]\w+$`)
)

// namedIn lists the files, commits and tests that a document names in backquotes.
func namedIn(text string) (files, commits, tests []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		switch {
		case namedFile.MatchString(m[1]):
			files = append(files, m[1])
		case namedCommit.MatchString(m[1]):
			commits = append(commits, m[1])
		case namedTest.MatchString(m[1]):
			tests = append(tests, m[1])
		}
	}
	return files, commits, tests
}

const contributing = "CONTRIBUTING.md"

func TestContributorsFindWhatIsNamed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, contributing))
	if err != nil {
		t.Fatal(err)
	}
	files, _, tests := namedIn(string(text))
	if len(files) < 30 || len(tests) < 15 {
		t.Fatalf("%s names %d files and %d tests, want more: it was misread", contributing, len(files), len(tests))
	}
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil && file != "testing/synctest" {
			t.Errorf("%s names %s: %v", contributing, file, err)
		}
	}
	found := testNames(t)
	for _, name := range tests {
		if !slices.Contains(found, name) {
			t.Errorf("%s names %s, and there is no such test", contributing, name)
		}
	}
}

// testNames are the functions of all tests.
func testNames(t *testing.T) (names []string) {
	t.Helper()
	for _, f := range theRepository(t).files {
		if !f.isTest() {
			continue
		}
		names = append(names, f.functions...)
	}
	return names
}

func TestCommitsThatContributorsLookAtAreInTheHistory(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, contributing))
	if err != nil {
		t.Fatal(err)
	}
	_, commits, _ := namedIn(string(text))
	if len(commits) < 8 {
		t.Fatalf("%s names %d commits, want one for each thing that can be added", contributing, len(commits))
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		t.Skip("this is no clone of the repository with its history")
	}
	for _, c := range commits {
		if _, err := git("merge-base", "--is-ancestor", c, "HEAD"); err != nil {
			t.Errorf("%s names commit %s, which is not in the history of HEAD: %v", contributing, c, err)
		}
	}
}

func TestNamesAreRead(t *testing.T) {
	files, commits, tests := namedIn("See `launch/flags.go`, `optim` and `go test ./kvstore`; `0123abcd`, `TestIt`, `--check`, `go run ./bench/tune` and 0123abcd.")
	if !slices.Equal(files, []string{"launch/flags.go"}) || !slices.Equal(commits, []string{"0123abcd"}) || !slices.Equal(tests, []string{"TestIt"}) {
		t.Errorf("got files %q, commits %q, tests %q, want launch/flags.go, 0123abcd and TestIt", files, commits, tests)
	}
}
