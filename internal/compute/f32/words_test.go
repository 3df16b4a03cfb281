package f32

import (
	order "encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Go's assembler does not know most vector instructions of arm64, so its files hold them as words,
// each with its text beside it. A disassembler that was written by others says whether the two are
// the same.
func TestWordsOfArm64AreTheInstructionsBesideThem(t *testing.T) {
	objdump, err := exec.LookPath("aarch64-linux-gnu-objdump")
	if err != nil {
		t.Skip("aarch64-linux-gnu-objdump (Debian: binutils-aarch64-linux-gnu) is not installed")
	}
	files, err := filepath.Glob("*_arm64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("got the files %v and the error %v, want assembly of arm64", files, err)
	}
	line := regexp.MustCompile(`(?m)^\tWORD \$0x([0-9a-f]{8}) // (.*)$`)
	want := map[uint32]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := line.FindAllStringSubmatch(string(text), -1)
		if words := strings.Count(string(text), "WORD "); words != len(found) {
			t.Errorf("%s: %d of %d words have no text", name, words-len(found), words)
		}
		for _, m := range found {
			code, err := strconv.ParseUint(m[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if old, ok := want[uint32(code)]; ok && old != m[2] {
				t.Errorf("%s: %#08x stands for %q and for %q", name, code, old, m[2])
			}
			want[uint32(code)] = m[2]
		}
	}
	var image []byte
	for code := range want {
		image = order.LittleEndian.AppendUint32(image, code)
	}
	path := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "aarch64", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for l := range strings.SplitSeq(string(out), "\n") {
		part := strings.SplitN(l, "\t", 3) // address, code, text
		if len(part) < 3 {
			continue
		}
		var code uint32
		if _, err := fmt.Sscanf(part[1], "%x", &code); err != nil {
			continue
		}
		seen++
		if got := strings.Join(strings.Fields(part[2]), " "); got != want[code] {
			t.Errorf("%#08x is %q, its text says %q", code, got, want[code])
		}
	}
	if seen != len(want) {
		t.Errorf("the disassembler found %d instructions, want %d", seen, len(want))
	}
}
