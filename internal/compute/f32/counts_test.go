package f32

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The design note estimates the speed of arm64's tiles by the instructions of their inner loops.
// Its table is what the assembly has.
func TestInnerLoopsOfArm64AreThoseOfTheDesignNote(t *testing.T) {
	const note = "../../../docs/design/measured/0039-neon.md"
	doc, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	asm, err := os.ReadFile("tile_arm64.s")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `((?:gather|outer)[0-9](?:NEON|BF16))` \\|.*$")
	rows := row.FindAllStringSubmatch(string(doc), -1)
	if len(rows) == 0 {
		t.Fatalf("%s has no table of inner loops", note)
	}
	for _, r := range rows {
		if want := countLoop(t, string(asm), r[1]); r[0] != want {
			t.Errorf("%s says\n\t%s\nthe assembly has\n\t%s", note, r[0], want)
		}
	}
}

// countLoop is the table's row of a function: instructions of a turn of its loop.
func countLoop(t *testing.T, asm, name string) string {
	t.Helper()
	_, body, found := strings.Cut(asm, "\nTEXT ·"+name+"(SB)")
	_, body, looped := strings.Cut(body, "\nloop:\n")
	if !found || !looped {
		t.Fatalf("there is no loop in a function %s", name)
	}
	var products, perProduct, moves, loaded, others, all int
	for line := range strings.SplitSeq(body, "\n") {
		code, text, isWord := strings.Cut(line, " // ")
		op := strings.Fields(code)
		if isWord {
			op = strings.Fields(text)
		}
		if len(op) == 0 {
			continue
		}
		all++
		switch {
		case op[0] == "fmla", op[0] == "bfmmla":
			products++
			perProduct = map[string]int{"fmla": 4, "bfmmla": 16}[op[0]]
		case strings.HasPrefix(op[0], "zip"):
			moves++
		case op[0] == "ldp":
			loaded += 2
		case op[0] == "ldr":
			loaded++
		case op[0] == "ld1": // a load and an insertion
			loaded, moves = loaded+1, moves+1
		case strings.HasPrefix(op[0], "MOVW"):
			loaded++
		case slices.Contains([]string{"ADD", "SUBS"}, op[0]):
			others++
		case strings.HasPrefix(op[0], "B"): // the end of the turn
			others++
			return fmt.Sprintf("| `%s` | %d | %d | %d | %d | %d | %d | %.3f |", name, products*perProduct, products, moves, loaded, others, all, float64(products)/float64(products+moves))
		default:
			t.Fatalf("%s: what is %q?", name, line)
		}
	}
	t.Fatalf("%s: the loop has no end", name)
	return ""
}
