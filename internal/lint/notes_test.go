package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	noteTitle = regexp.MustCompile(`^# (\d+)\. (.+)\n`)
	noteRow   = regexp.MustCompile(`(?m)^\| (\d+)\. \[(.+?)\]\((\d{4}-[a-z-]+\.md)\) \|`)
	unused    = regexp.MustCompile(`(?m)^Numbers ([\d, and]+) were never used`)
)

// indexFaults says what is wrong with an index of design notes, given the first lines of the notes
// by file name.
func indexFaults(index string, notes map[string]string) (wrong []string) {
	// rows has "N. Title" by file.
	rows := map[string]string{}
	for _, m := range noteRow.FindAllStringSubmatch(index, -1) {
		rows[m[3]] = m[1] + ". " + m[2]
	}
	last, used := 0, map[string]bool{}
	for file, text := range notes {
		m := noteTitle.FindStringSubmatch(text)
		if m == nil {
			// The file belongs to a note.
			continue
		}
		if want := m[1] + ". " + m[2]; rows[file] != want {
			wrong = append(wrong, fmt.Sprintf("%s: the index has %q, want %q", file, rows[file], want))
		}
		if !strings.HasPrefix(file, fmt.Sprintf("%04s", m[1])) {
			wrong = append(wrong, fmt.Sprintf("%s: the title has number %s", file, m[1]))
		}
		if used[m[1]] {
			wrong = append(wrong, fmt.Sprintf("%s: another note has number %s, too", file, m[1]))
		}
		used[m[1]] = true
		delete(rows, file)
		var n int
		fmt.Sscan(m[1], &n)
		last = max(last, n)
	}
	for file := range rows {
		wrong = append(wrong, fmt.Sprintf("%s: is in the index, and there is no such note", file))
	}
	var gaps []string
	for n := 1; n < last; n++ {
		if !used[fmt.Sprint(n)] {
			gaps = append(gaps, fmt.Sprint(n))
		}
	}
	said := unused.FindStringSubmatch(index)
	if said == nil {
		said = []string{"", ""}
	}
	if got := regexp.MustCompile(`\d+`).FindAllString(said[1], -1); !slices.Equal(got, gaps) {
		wrong = append(wrong, fmt.Sprintf("the index says that numbers %v were never used, want %v", got, gaps))
	}
	return wrong
}

func TestDesignNotesAreInTheIndex(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "design")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(files) < 30 {
		t.Fatalf("got %d design notes (%v), want more", len(files), err)
	}
	notes := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		notes[filepath.Base(file)] = string(text)
	}
	for _, w := range indexFaults(string(index), notes) {
		t.Error("docs/design/README.md: " + w)
	}
}

func TestFaultsOfAnIndexAreFound(t *testing.T) {
	const index = "| 1. [One](0001-one.md) | x |\n| 3. [Three](0003-three.md) | x |\n\nNumbers 2 were never used.\n"
	for _, tc := range []struct {
		notes map[string]string
		want  int
	}{
		{map[string]string{"0001-one.md": "# 1. One\n", "0003-three.md": "# 3. Three\n", "0003-measured.md": "Measured.\n"}, 0},
		{map[string]string{"0001-one.md": "# 1. One\n", "0003-three.md": "# 3. Four\n"}, 1},
		{map[string]string{"0001-one.md": "# 1. One\n"}, 2},                                                                       // no note 3, and no gap
		{map[string]string{"0001-one.md": "# 1. One\n", "0003-three.md": "# 3. Three\n", "0002-two.md": "# 2. Two\n"}, 2},         // no row, and no gap
		{map[string]string{"0001-one.md": "# 1. One\n", "0003-three.md": "# 3. Three\n", "0003-another.md": "# 3. Another\n"}, 2}, // no row, and the number twice
	} {
		if got := indexFaults(index, tc.notes); len(got) != tc.want {
			t.Errorf("%v: got %q, want %d", tc.notes, got, tc.want)
		}
	}
}
