package dialin

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
)

// Build identifies this program: agents and launcher of a job must be the same one.
func Build() (string, error) {
	if runtime.GOOS == "linux" {
		// The path works even if the file was replaced.
		return BuildOf("/proc/self/exe")
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("launch: find own program: %w", err)
	}
	return BuildOf(path)
}

// BuildOf is the Build of the program in a file. A program without its symbol tables is still the
// same.
func BuildOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("launch: read own program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if id := goBuildID(f); id != nil {
		h.Write(id)
	} else if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("launch: read own program: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// goBuildID is the ID that Go's linker makes of all that the program is built from. It is in a note
// of the program: lengths of name and text, 4 (the type of the note), "Go", the text.
func goBuildID(r io.ReaderAt) []byte {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 4096 {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return nil
		}
		for len(b) >= 16 {
			lengths := [2]uint32{f.ByteOrder.Uint32(b), f.ByteOrder.Uint32(b[4:])}
			if max(lengths[0], lengths[1]) > uint32(len(b)) {
				break
			}
			name, text := int(lengths[0]), int(lengths[1])
			at := 12 + (name+3)&^3
			if at+text > len(b) {
				break
			}
			if f.ByteOrder.Uint32(b[8:]) == 4 && string(b[12:16]) == "Go\x00\x00" && text > 0 {
				return b[at : at+text]
			}
			b = b[min(len(b), at+(text+3)&^3):]
		}
	}
	return nil
}
