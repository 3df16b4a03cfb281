package slurm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

var hostlists = []struct{ list, want string }{
	{"n1", "n1"},
	{"n[1-3,07]", "n1 n2 n3 n07"},
	{"n[1-3,07],gpu-a[001-003]x[1-2]", "n1 n2 n3 n07 gpu-a001x1 gpu-a001x2 gpu-a002x1 gpu-a002x2 gpu-a003x1 gpu-a003x2"},
	{"n[9-11]", "n9 n10 n11"},
	{"n[09-11]", "n09 n10 n11"},
	{"n[001-3]", "n001 n002 n003"},
	{"n[9-010]", "n9 n10"},
	{"n[08-10,1]", "n08 n09 n10 n1"},
	{"n1-3", "n1-3"},
	{"b,a", "b a"},
	{"a[1-2][3-4]", "a13 a14 a23 a24"},
	{"a[1-2]b[3-4]c[5-6]", "a1b3c5 a1b3c6 a2b3c5 a2b3c6 a1b4c5 a1b4c6 a2b4c5 a2b4c6"},
	{"n[1-2][1,3,5]e[0-1]", "n11e0 n11e1 n21e0 n21e1 n13e0 n13e1 n23e0 n23e1 n15e0 n15e1 n25e0 n25e1"},
	{"a[1-2]b[3-4]c[5-6]d[7-8]", "a1b3c5d7 a1b3c5d8 a2b3c5d7 a2b3c5d8 a1b4c5d7 a1b4c5d8 a2b4c5d7 a2b4c5d8 a1b3c6d7 a1b3c6d8 a2b3c6d7 a2b3c6d8 a1b4c6d7 a1b4c6d8 a2b4c6d7 a2b4c6d8"},
	{"[1-3]", "1 2 3"},
	{"n.a-b_c[1]", "n.a-b_c1"},
	{"n[4294967294-4294967296]", "n4294967294 n4294967295 n4294967296"},
	{"n[00000000000000000000001-2]", "n00000000000000000000001 n00000000000000000000002"},
	{"n[2,1,1],n1", "n2 n1 n1 n1"},
}

func TestHostlistsAreExpandedInSlurmsOrder(t *testing.T) {
	for _, tc := range hostlists {
		got, err := Expand(tc.list)
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("Expand(%q) is %q, %v; want %q", tc.list, got, err, tc.want)
		}
	}
}

func TestAHostlistsErrorNamesThePosition(t *testing.T) {
	for _, tc := range []struct {
		list     string
		position int
		problem  string
	}{
		{"", 1, "got no name, want a node's"},
		{"n1,,n2", 4, "got no name, want a node's"},
		{"n1,", 4, "got no name, want a node's"},
		{"n[1-2", 6, "got the end, want ] to close the bracket"},
		{"n[1-", 5, "got the end in a bracket, want a number"},
		{"n[", 3, "got the end in a bracket, want a number"},
		{"n[]", 3, `got "]" in a bracket, want a number`},
		{"n[1,]", 5, `got "]" in a bracket, want a number`},
		{"n[1-]", 5, `got "]" in a bracket, want a number`},
		{"n[a-b]", 3, `got "a" in a bracket, want a number`},
		{"n[1-2-3]", 6, `got "-" in a bracket, want digits, -, a comma or ]`},
		{"n[1[2]]", 4, `got "[" in a bracket, want digits, -, a comma or ]`},
		{"n[ 1]", 3, `got " " in a bracket, want a number`},
		{"n1-2]", 5, `got "]", want letters, digits, -, _, a dot, a comma or [`},
		{"a b", 2, `got " ", want letters, digits, -, _, a dot, a comma or [`},
		{"a,-b", 3, "got -, want the first character of a node's name"},
		{"n[1-2]-ib,m", 7, `got "-ib" after the last bracket of a name, want a comma or the end`},
		{"n[1],m[3-1]", 8, "got the range 3-1, want its first number to be the lower one"},
		{"n[0-65536]", 3, "the bracket has more than 65536 numbers"},
		{"n[0-9223372036854775807]", 3, "the bracket has more than 65536 numbers"},
		{"n[9223372036854775808]", 3, "got 9223372036854775808, want a number below 2^63"},
		{"n[0-255]x[0-255],m", 18, "the list has more than 65536 names"},
		{"n[0-65535][0-65535][0-65535][0-65535][0-65535]", 46, "the list has more than 65536 names"},
		{"n[" + strings.Repeat("0", 300) + "]", 3, "got a number of 300 digits, want at most 255"},
		{strings.Repeat("n", 300), 300, "a name has 300 characters, want at most 255"},
	} {
		got, err := Expand(tc.list)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Position != tc.position || syntax.Problem != tc.problem {
			t.Errorf("Expand(%q) is %q, %v; want an error at character %d: %s", tc.list, got, err, tc.position, tc.problem)
		}
	}
	_, err := Expand("n[1-2")
	if want := `"n[1-2" has a syntax error at character 6: got the end, want ] to close the bracket`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err = Expand(strings.Repeat("n,", 1<<20)); err == nil {
		t.Error("a list of 2 MiB was accepted")
	}
	_, err = Expand(strings.Repeat("node,", 1000) + "!")
	if err == nil || len(err.Error()) > 250 {
		t.Errorf("got %v, want an error that does not quote the whole list", err)
	}
}

// hostnames is what Slurm makes of a list; "": it refuses it.
func hostnames(t *testing.T, scontrol, list string) string {
	out, err := exec.Command(scontrol, "show", "hostnames", list).Output()
	if err != nil {
		t.Fatalf("scontrol show hostnames %q: %v", list, err)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// oracle finds scontrol, and gives it the configuration that it wants to see for anything.
func oracle(t testing.TB) string {
	scontrol := sshtest.Program(t, "scontrol", "slurm-client")
	config := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(config, []byte("ClusterName=none\nSlurmctldHost=localhost\nNodeName=none\nPartitionName=all Nodes=none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_CONF", config)
	return scontrol
}

func TestHostlistsAreThoseOfScontrol(t *testing.T) {
	scontrol := oracle(t)
	for _, tc := range hostlists {
		if got := hostnames(t, scontrol, tc.list); got != tc.want {
			t.Errorf("scontrol show hostnames %q is %q, want %q", tc.list, got, tc.want)
		}
	}
}

// FuzzExpand wants no text to break Expand, and one that it accepts to stand for names within its
// limits.
func FuzzExpand(f *testing.F) {
	for _, tc := range hostlists {
		f.Add(tc.list)
	}
	f.Add("n[1-2")
	f.Add("n[0-65535]x[0-65535]")
	f.Fuzz(func(t *testing.T, list string) {
		names, err := Expand(list)
		if err != nil {
			var syntax *SyntaxError
			if errors.As(err, &syntax) && (syntax.Position < 1 || syntax.Position > len(list)+1) {
				t.Errorf("Expand(%q): position %d of %d characters", list, syntax.Position, len(list))
			}
			return
		}
		if len(names) == 0 || len(names) > maxNodes {
			t.Errorf("Expand(%q) has %d names", list, len(names))
		}
		for _, name := range names {
			if strings.ContainsFunc(name, func(c rune) bool { return c >= 0x80 || !isNameByte(byte(c)) }) || name == "" || len(name) > maxNodeName {
				t.Errorf("Expand(%q) has the name %q", list, name)
			}
		}
	})
}

// FuzzExpandAgainstScontrol wants what Expand accepts to be the same in Slurm, and every list of
// Slurm's own form to be accepted.
func FuzzExpandAgainstScontrol(f *testing.F) {
	scontrol := oracle(f)
	for _, tc := range hostlists {
		f.Add(tc.list, []byte(tc.list))
	}
	f.Fuzz(func(t *testing.T, list string, shape []byte) {
		for _, l := range []string{list, listOfShape(shape)} {
			names, err := Expand(l)
			if err != nil {
				if l != list {
					t.Errorf("Expand(%q): %v", l, err)
				}
				continue
			}
			if len(l) > 100_000 || slices.Contains(names, "") {
				continue // too long for a command line
			}
			if got, want := strings.Join(names, " "), hostnames(t, scontrol, l); got != want {
				t.Errorf("Expand(%q) is %.500q, scontrol has %.500q", l, got, want)
			}
		}
	})
}

// listOfShape makes a list of Slurm's own form out of any bytes.
func listOfShape(shape []byte) string {
	next := func(n int) int {
		if len(shape) == 0 {
			return 0
		}
		b := shape[0]
		shape = shape[1:]
		return int(b) % n
	}
	var names []string
	for range 1 + next(4) {
		name := []string{"n", "gpu-a", "node0", "A.b_", "7x"}[next(5)]
		for range next(4) {
			var ranges []string
			for range 1 + next(3) {
				from, width := next(256), next(5)
				r := fmt.Sprintf("%0*d", width, from)
				if next(2) == 1 {
					r += fmt.Sprintf("-%0*d", width, from+next(12))
				}
				ranges = append(ranges, r)
			}
			name += "[" + strings.Join(ranges, ",") + "]" + []string{"x", "-", "", "i2c"}[next(4)]
		}
		if i := strings.LastIndexByte(name, ']'); i >= 0 {
			name = name[:i+1]
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}
